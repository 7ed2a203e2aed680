// The keeper: a small process between `lockstep run` and the job. It starts the ranks and reaps all processes of the
// job (it is their subreaper). If `lockstep run` ends for any reason, the keeper ends the job's processes and removes
// the ring folder.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {

struct LaunchPlan {
  std::vector<std::string> command;
  std::vector<std::vector<std::string>> environments;  // one process per environment, as "NAME=value"
  std::string ring_folder;                             // removed at the end; empty if there is none
  // The job's signal mask: the mask with which `lockstep run` was started.
  sigset_t signal_mask;
  std::set<int> ignored;  // signals in kOwnActions that the job ignores
};

// `lockstep run` and the keeper change what these signals do, but not for the job.
inline constexpr int kOwnActions[] = {SIGCHLD, SIGPIPE, SIGXFSZ};

struct KeeperEvent {
  enum Kind : int32_t { kStarted = 1, kStartFailed = 2, kEnded = 3, kAllStarted = 4 };
  int32_t kind = 0;
  int32_t child = -1;  // index into environments; -1 for another process of the job
  int32_t pid = 0;
  int32_t error = 0;   // kStartFailed: errno of fork or exec
  int32_t code = 0;    // kEnded: CLD_EXITED, CLD_KILLED, CLD_DUMPED
  int32_t status = 0;  // exit code or signal
  int64_t mono_ns = 0;
};

// Owned by the thread that watches the job. Not thread-safe.
class Keeper {
 public:
  // Forks, so no other thread may exist yet. `lock_fd` (or -1) stays open in the keeper.
  static absl::StatusOr<Keeper> Start(const LaunchPlan& plan, int lock_fd);

  Keeper(Keeper&& other) noexcept;
  Keeper& operator=(Keeper&&) = delete;
  // Calls Finish() if the owner did not.
  ~Keeper();

  // Readable if there is an event, or if the keeper has exited.
  int fd() const { return fd_.get(); }
  pid_t pid() const { return pid_; }
  // Returns the next event; nullopt if there is none. Sets `gone` if the keeper itself has exited.
  std::optional<KeeperEvent> Next(bool* gone);
  // Ends the rest of the job (SIGTERM, then SIGKILL), removes the ring folder, and waits until the keeper has exited.
  void Finish();

 private:
  Keeper(pid_t pid, UniqueFd fd) : pid_(pid), fd_(std::move(fd)) {}
  pid_t pid_;
  UniqueFd fd_;
};

// Ends every descendant of the calling process: first SIGTERM (and SIGCONT) if grace_ns > 0, then SIGKILL. Reaps
// children. Gives up after `limit_ns`, because of processes in uninterruptible sleep. Returns the number of remaining
// processes.
int EndDescendants(int64_t grace_ns, int64_t limit_ns);

}  // namespace lockstep
