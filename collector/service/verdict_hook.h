// The command of --on-verdict: gets each verdict as JSON on standard input, within a time limit, and at most one at a
// time for a job. It starts once for one incident, however often the collector is killed and restarted: the command's
// own process writes the incident's mark first. Its effect is up to the site; success or failure is logged.
#ifndef LOCKSTEP_COLLECTOR_SERVICE_VERDICT_HOOK_H_
#define LOCKSTEP_COLLECTOR_SERVICE_VERDICT_HOOK_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lockstep {

// Runs `argv` with `input` on its standard input, in its own process group, which is ended after `limit_ns`. OK if it
// exits with status 0. It need not read its input.
absl::Status RunWithInput(const std::vector<std::string>& argv, const std::string& input, int64_t limit_ns);

class VerdictHook {
 public:
  // `say` is called from other threads.
  VerdictHook(std::string command, int64_t limit_ns, std::function<void(const std::string&)> say);
  // Waits for what runs, at most its limit.
  ~VerdictHook();
  // Starts the command. While it runs for this job, keeps the newest verdict until it ends. `mark` is a file whose
  // existence proves an earlier start; empty: there is none.
  void Run(const std::string& job, const std::string& json, const std::string& mark = "");

 private:
  struct Told {
    std::string json, mark;
  };
  void Work(const std::string& job);

  const std::string command_;
  const int64_t limit_ns_;
  const std::function<void(const std::string&)> say_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::map<std::string, Told> next_;  // jobs with a running command, and the next verdict to pass; empty: none
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_SERVICE_VERDICT_HOOK_H_
