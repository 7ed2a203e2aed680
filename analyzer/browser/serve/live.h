// The jobs that a collector watches, as `lockstep top --json` prints them.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::serve {

// All texts are printable.
struct LiveJob {
  std::string name, state;
  int64_t since_real_ns = 0;  // when the job entered this state; 0 if unknown
  int64_t ranks = 0, expected = 0, silent_agents = 0;
  std::string oldest;                       // the oldest operation in flight: "tp_3 AllReduce #41, 5 s"
  std::string missing;                      // the ranks that it waits for, "ranks 3, 7"; empty if unknown
  std::string verdict, sentence, incident;  // the latest incident's verdict, headline and folder name
  double calls_a_second = -1;               // rate of the busiest communicator; -1 if unknown
};

// Parses one job per line; skips lines that are not jobs.
std::vector<LiveJob> ParseLiveJobs(std::string_view output);

// Thread-safe.
class LiveJobs {
 public:
  struct Answer {
    std::vector<LiveJob> jobs;  // jobs in trouble first
    std::string problem;        // why there is no answer; empty if there is one
  };
  // `program` is lockstep-top. If `endpoint` is empty, lockstep-top finds the collector.
  LiveJobs(std::string program, std::string endpoint) : program_(std::move(program)), endpoint_(std::move(endpoint)) {}

  // Queries the collector, unless the last answer is less than a second old.
  Answer Get();

 private:
  Answer Ask() const;

  const std::string program_, endpoint_;
  std::mutex mutex_;
  int64_t answered_ns_ = 0;
  Answer last_;
};

}  // namespace lockstep::serve
