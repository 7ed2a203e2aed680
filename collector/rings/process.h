// The process behind a ring, by its number in this pid namespace, and its end.
#ifndef LOCKSTEP_COLLECTOR_RINGS_PROCESS_H_
#define LOCKSTEP_COLLECTOR_RINGS_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "collector/rings/finder.h"
#include "recorder/ring/snapshot.h"

namespace lockstep {

// Verifies the ring's claims, because a ring is not trusted: the process has the claimed number, pid namespace and
// start time, belongs to the ring's owner, and has the file mapped (if the maps are readable). nullopt: there is no
// such process any more, or its namespace cannot be seen from here.
std::optional<pid_t> FindRingProcess(const ring::ProcessInfo& info, const FoundRing& ring);

// The end of a process, as observed from outside.
struct SeenEnd {
  uint64_t key = 0;
  std::optional<int> wait_status;  // nullopt: it was reaped before, and this kernel does not report it afterwards
  int64_t mono_ns = 0, real_ns = 0;
};

// Waits for processes to end, on its own thread: if many end together, order and times are as exact as the kernel's
// wake-ups. Reads their wait statuses before their parents reap them, if possible.
class EndWatcher {
 public:
  static absl::StatusOr<std::unique_ptr<EndWatcher>> Start();
  virtual ~EndWatcher() = default;
  // Takes ownership of `pidfd`. The end carries the key, once.
  virtual bool Add(pid_t pid, int pidfd, uint64_t key) = 0;
  virtual int fd() const = 0;
  // In the order of the ends; mono_ns are distinct.
  virtual bool Next(SeenEnd* out) = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_RINGS_PROCESS_H_
