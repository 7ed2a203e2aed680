// Finds the process behind a ring, by its PID in this namespace, and watches for its exit.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "collector/rings/finder.h"
#include "recorder/ring/snapshot.h"

namespace lockstep {

// Verifies the claims of a ring, which is untrusted. The process must have the claimed PID, PID namespace and start
// time, and belong to the ring's owner. It must have the file mapped (if the maps are readable). Returns nullopt if
// that process no longer exists, or if its namespace is not visible from here.
std::optional<pid_t> FindRingProcess(const ring::ProcessInfo& info, const FoundRing& ring);

// A process exit, as observed from outside.
struct SeenEnd {
  uint64_t key = 0;  // as given to Add()
  // Nullopt if the process was already reaped and this kernel does not report its status afterwards.
  std::optional<int> wait_status;
  int64_t mono_ns = 0, real_ns = 0;
};

// Waits for processes to exit, on its own thread, so that the order and times of many exits are as exact as the
// kernel's wake-ups. Reads the wait statuses before the parents reap the processes, if possible.
class EndWatcher {
 public:
  static absl::StatusOr<std::unique_ptr<EndWatcher>> Start();
  virtual ~EndWatcher() = default;
  // Takes ownership of `pidfd`. The exit is reported once. Returns false if the process cannot be watched.
  virtual bool Add(pid_t pid, int pidfd, uint64_t key) = 0;
  virtual int fd() const = 0;
  // Returns exits in order; their mono_ns values are distinct.
  virtual bool Next(SeenEnd* out) = 0;
};

}  // namespace lockstep
