// The command of --on-verdict. The command gets each verdict as JSON on standard input, and the verdict's main facts as
// variables. For one job, at most one command runs at a time. A command that fails is started again a few times, with
// growing pauses. For one incident the command succeeds at most once, even if the collector is killed and restarted. To
// ensure this, the command's own process creates the incident's mark file before it begins.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lockstep {

// Runs `argv` with `input` on its standard input, in its own process group, which is killed after `limit_ns`. OK if it
// exits with status 0. The command does not have to read its input. `environment` has "NAME=VALUE" entries; nullptr for
// this process's.
absl::Status RunWithInput(const std::vector<std::string>& argv, const std::string& input, int64_t limit_ns,
                          const std::vector<std::string>* environment = nullptr);

// Returns variables such as "LOCKSTEP_VERDICT_JOB=17" (settings/table.cpp lists them): the parts of a verdict's JSON
// that a shell script needs, bounded and without control characters. Host names that are not plain words are only
// counted.
std::vector<std::string> VerdictVariables(const std::string& json);

struct HookOptions {
  std::string command;
  int64_t limit_ns = 60'000'000'000;  // time limit of one attempt
  // Pause before a failed command is started again; each further pause is four times as long.
  int64_t first_pause_ns = 2'000'000'000;
  int starts = 5;
  std::function<void(const std::string&)> say;  // called from other threads
};

struct ToldVerdict {
  std::string json;
  std::string folder;  // incident folder, for LOCKSTEP_INCIDENT; empty if nothing was written
  std::string mark;    // a file that exists if the command was already started; empty if there is none
};

class VerdictHook {
 public:
  explicit VerdictHook(HookOptions options);
  // Waits, at most for the limit, for running commands and for verdicts without a mark file, which no later process
  // would deliver.
  ~VerdictHook();
  // Starts the command. If it is already running for this job, keeps the verdict until it ends; only the newest verdict
  // is kept.
  void Run(const std::string& job, const ToldVerdict& verdict);

 private:
  void Work(const std::string& job);
  absl::Status Start(const ToldVerdict& told, int64_t limit_ns) const;
  // Waits before the next attempt, after `failures` failures. Returns false if there is no next attempt.
  bool Pause(std::unique_lock<std::mutex>* lock, const std::string& job, const ToldVerdict& told, int failures);
  int64_t LimitNs() const;

  const HookOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t ends_ns_ = 0;  // when all attempts must end, set by the destructor; 0 before
  // Indexed by the job whose command is running: the verdict to deliver next. Its JSON is empty if there is none.
  std::map<std::string, ToldVerdict> next_;
};

}  // namespace lockstep
