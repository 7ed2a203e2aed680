// The command of --on-verdict: gets each verdict as JSON on standard input, within a time limit, and never more than
// one at a time for a job. A command that fails is started again, ever later, a few times. For one incident it succeeds
// at most once, however often the collector is killed and restarted: the command's own process leaves the incident's
// mark before it begins. What the command does is the site's affair; whether it worked is logged.
#ifndef LOCKSTEP_COLLECTOR_COMMON_VERDICT_HOOK_H_
#define LOCKSTEP_COLLECTOR_COMMON_VERDICT_HOOK_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lockstep {

// Runs `argv` with `input` on its standard input, in a process group of its own, which is ended after `limit_ns`. OK
// when it exits with status 0. It need not read its input. `environment`: "NAME=VALUE" each; nullptr: this process's.
absl::Status RunWithInput(const std::vector<std::string>& argv, const std::string& input, int64_t limit_ns,
                          const std::vector<std::string>* environment = nullptr);

struct HookOptions {
  std::string command;
  int64_t limit_ns = 60'000'000'000;       // of one start
  int64_t first_pause_ns = 2'000'000'000;  // before a command that failed is started again; each next one is 4 times it
  int starts = 5;
  std::function<void(const std::string&)> say;  // called from other threads
};

struct ToldVerdict {
  std::string json;
  std::string folder;  // of the incident, for LOCKSTEP_INCIDENT; empty: nothing was written
  std::string mark;    // a file: where it exists the command was started before; empty: there is none
};

class VerdictHook {
 public:
  explicit VerdictHook(HookOptions options);
  // Waits for what runs, and for verdicts without a mark, which nobody would pass on later: at most the limit.
  ~VerdictHook();
  // Starts the command, or, while it runs for this job, keeps the verdict until it ends: of several the newest.
  void Run(const std::string& job, const ToldVerdict& verdict);

 private:
  void Work(const std::string& job);
  absl::Status Start(const ToldVerdict& told, int64_t limit_ns) const;
  // Whether the command is to be started again after `failures`, when the pause is over.
  bool Pause(std::unique_lock<std::mutex>* lock, const std::string& job, const ToldVerdict& told, int failures);
  int64_t LimitNs() const;

  const HookOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t ends_ns_ = 0;                      // no start lasts longer; 0: the program goes on
  std::map<std::string, ToldVerdict> next_;  // of jobs whose command runs: what is to be told then; empty: nothing
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_COMMON_VERDICT_HOOK_H_
