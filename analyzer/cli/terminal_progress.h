// Shows the progress of a program that reads large recordings on a terminal.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "analyzer/formats/load/load.h"

namespace lockstep {

// One line on standard error. Its own thread updates it once a second, and the destructor ends it. Prints nothing in
// the first second, or if standard error is not a terminal.
class TerminalProgress {
 public:
  // `program` begins the line ("lockstep analyze"). `load` is read until Doing() is called, and must live until then.
  TerminalProgress(std::string program, const LoadProgress& load);
  ~TerminalProgress();
  // Sets the next activity ("analyzing 8 ranks"), which must be printable. Thread-safe.
  void Doing(std::string what);
  // Returns a line for each activity so far with its wall time and the process's CPU time, and the peak memory.
  std::string Timing();
  // Ends the line before other output. Shows nothing while the returned object exists. Thread-safe.
  [[nodiscard]] std::unique_lock<std::mutex> EndLine();

 private:
  // When an activity began: wall and CPU time in seconds.
  struct Begin {
    std::string what;
    double wall, cpu;
  };

  static Begin Now(std::string what);
  void Show();
  std::string Line() const;

  const std::string program_;
  const LoadProgress& load_;
  std::mutex mutex_;
  std::condition_variable done_;
  bool finished_ = false;
  size_t shown_ = 0;  // length of the visible line, in bytes
  std::string what_;  // empty while loading
  std::vector<Begin> begun_{Now("reading")};
  std::thread thread_;
};

}  // namespace lockstep
