// What an agent leaves of the rings of dead processes: nobody else removes them, and they lie in memory. An abnormal
// end's ring is in the spool by then.
#ifndef LOCKSTEP_COLLECTOR_RINGS_RING_RETENTION_H_
#define LOCKSTEP_COLLECTOR_RINGS_RING_RETENTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collector/common/retention.h"

namespace lockstep {

struct RingRetentionOptions {
  std::vector<std::string> folders;  // each a LOCKSTEP_DIR; empty: /dev/shm/lockstep-UID
  std::string shared = "/dev/shm";   // where those lie
  bool all_users = false;            // of every user, else of this one
  int64_t age_s = 7 * 86400;         // since anything was recorded; 0: however old
  uint64_t bytes =
      uint64_t{5} << 30;  // of dead rings in one folder, and never more than a 32nd of its file system; 0: however much
  int64_t look_ns = 600'000'000'000;  // from one look to the next
};

struct RetainedRings {
  int removed = 0, failed = 0;
  uint64_t removed_bytes = 0;
};

// Removes, of rings that no process writes any more (collector/rings/clean.h), those older than the age, then the
// oldest while they take more than the bytes; none in which something was recorded in the last ten minutes for the
// bytes alone, since it may be what somebody is about to read. `by_age` false: the wall clock is not to be trusted.
// Links are not followed; a folder must belong to the user that its name says, a ring to the owner of its folder. What
// cannot be opened is left out, and so are folders that are not in memory: on a disk that hosts share, rings of other
// hosts' living processes look like those of the dead. May hang where a file system does.
RetainedRings RetainRings(const RingRetentionOptions& options, bool by_age);

// Does that now and then, on a thread of its own that is left behind where a file system holds it.
class RingRetainer {
 public:
  RingRetainer(const RingRetentionOptions& options, std::function<void(const std::string&)> log);
  ~RingRetainer();
  // The owner's thread, every second or so; what was removed is logged here.
  void Tick(int64_t mono_ns, int64_t real_ns);
  uint64_t removed() const { return removed_; }

 private:
  struct Shared;
  const RingRetentionOptions options_;
  const std::function<void(const std::string&)> log_;
  const std::shared_ptr<Shared> shared_;
  TrustedClock clock_;
  int64_t next_ns_ = 0;
  uint64_t removed_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_RINGS_RING_RETENTION_H_
