// Removes rings of dead processes, because nobody else does and they take memory. The ring of an abnormal end is in the
// spool by then.
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
  bool all_users = false;            // of every user, otherwise of this one
  int64_t age_s = 7 * 86400;         // since the last record; 0: any age
  uint64_t bytes =
      uint64_t{5} << 30;  // of dead rings in one folder, and never more than a 32nd of its file system; 0: no limit
  int64_t look_ns = 600'000'000'000;  // interval between looks
};

struct RetainedRings {
  int removed = 0, failed = 0;
  uint64_t removed_bytes = 0;
};

// Removes rings without a writer (collector/rings/clean.h): those older than the age, then the oldest until the rest
// fits the bytes. A ring with a record of the last ten minutes is not removed for the bytes, because somebody may be
// about to read it. `by_age` false: the wall clock is not reliable. Follows no links; a folder must belong to the user
// in its name, a ring to the owner of its folder. Skips what cannot be opened, and folders outside memory: on a disk
// that hosts share, rings of other hosts' living processes look like those of dead ones. May hang with a file system.
RetainedRings RetainRings(const RingRetentionOptions& options, bool by_age);

// Does that occasionally, on its own thread, which is left behind if a file system hangs.
class RingRetainer {
 public:
  RingRetainer(const RingRetentionOptions& options, std::function<void(const std::string&)> log);
  ~RingRetainer();
  // For the owner's thread, about once a second; logs removals.
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
