// The jobs that a collector watches, as `lockstep top --json` prints them.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::serve {

// Texts are printable.
struct LiveJob {
  std::string key;  // distinguishes it from other jobs
  std::string name, state;
  int64_t since_real_ns = 0;  // in this state; 0 unknown
  int64_t ranks = 0, expected = 0, silent_agents = 0;
  std::string oldest;                       // the oldest operation in flight: "tp_3 AllReduce #41, 5 s"
  std::string missing;                      // the ranks that it waits for, "ranks 3, 7"; empty if none is known
  std::string verdict, sentence, incident;  // of the last incident: its verdict, first line, and folder's name
  std::map<std::string, uint64_t> issued;   // by communicator: the newest call
  double calls_a_second = -1;               // of the busiest communicator; -1 unknown
};

// One job a line. Lines that are no job are skipped.
std::vector<LiveJob> ParseLiveJobs(std::string_view output);

// Thread-safe.
class LiveJobs {
 public:
  struct Answer {
    std::vector<LiveJob> jobs;  // those in trouble first
    std::string problem;        // why there is no answer; empty if there is
  };
  // `program`: lockstep-top. `endpoint`: empty for the collector that it finds.
  LiveJobs(std::string program, std::string endpoint) : program_(std::move(program)), endpoint_(std::move(endpoint)) {}

  // Asks the collector, unless the last answer is younger than a second.
  Answer Get();

 private:
  Answer Ask() const;

  const std::string program_, endpoint_;
  std::mutex mutex_;
  int64_t answered_ns_ = 0;
  Answer last_;
};

}  // namespace lockstep::serve
