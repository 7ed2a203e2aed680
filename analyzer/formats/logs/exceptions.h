// Reads Python exceptions that ended a process, as the process prints them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace lockstep::logs {

struct Raised {
  int32_t rank = -1, task = -1, local = -1;  // from the prefix of its lines
  std::string text;                 // "ValueError: .. (after KeyError: ..)"; empty if the log does not contain it
  std::vector<std::string> frames;  // innermost first: "forward (train.py:812)"
  int64_t number = 0;               // number of its line in the file
  // See IsOfOthers.
  bool of_others = false;
};

// Parses a log line by line. Drops an exception if its process prints many lines afterwards, because the process has
// caught it.
class ExceptionReader {
 public:
  void Take(std::string_view text, int32_t rank, int32_t task, int32_t local, int64_t number);
  // Adds an error that ended one of PyTorch's own threads.
  void TakeError(std::string_view error, int32_t rank, int32_t task, int32_t local, int64_t number);
  std::vector<Raised> Finish();

 private:
  enum class Part { kNone, kFrames, kMessage };  // parts of a traceback
  struct Writer {
    Raised last;
    Part part = Part::kNone;
    bool chained = false;  // the next traceback belongs to the same chain
    int64_t behind = 0;    // number of lines that the program printed after the exception
  };
  using Prefix = std::tuple<int32_t, int32_t, int32_t>;  // rank, task, local rank

  void Begin(const Prefix& prefix, Writer* writer);
  static void TakeFrame(std::string_view text, Writer* writer);
  static void TakeMessage(std::string_view text, const Prefix& prefix, int64_t number, Writer* writer);

  // Returns the writer of a line. Loggers label only the first line of a message that has several.
  Prefix WriterOf(const Prefix& prefix);

  std::map<Prefix, Writer> writers_;
  Prefix labeled_{-1, -1, -1};          // prefix of the newest line that begins a traceback
  int64_t lines_ = 0, labeled_at_ = 0;  // number of lines so far, and at the newest line of that traceback
  std::vector<Raised> errors_;          // see TakeError
  std::vector<Raised> unplaced_;        // exceptions about other processes, in lines without a prefix
};

// Returns whether launchers raise this exception about their workers, or when they are interrupted.
bool IsOfLauncher(std::string_view text);

// Returns whether an exception reports that another process ended or did not answer. `text`:
// "torch.distributed.DistBackendError: NCCL error in: ..". `innermost` is the innermost frame.
bool IsOfOthers(std::string_view text, std::string_view innermost);

}  // namespace lockstep::logs
