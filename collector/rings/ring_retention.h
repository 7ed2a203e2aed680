// Removes rings of dead processes, which would otherwise occupy memory forever. The ring of an abnormal exit is already
// in the spool.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collector/common/retention.h"

namespace lockstep {

struct RingRetentionOptions {
  std::vector<std::string> folders;  // each is used as a LOCKSTEP_DIR; empty for /dev/shm/lockstep-UID
  std::string shared = "/dev/shm";   // the folder that contains the rings' folders
  bool all_users = false;            // rings of all users, not only of this user
  int64_t age_s = 7 * 86400;         // maximum age since the last record; 0 for no limit
  // Maximum size of dead rings in one folder, but never more than a 32nd of its file system; 0 for no limit.
  uint64_t bytes = uint64_t{5} << 30;
  int64_t look_ns = 600'000'000'000;  // interval between scans
};

struct RetainedRings {
  int removed = 0, failed = 0;
  uint64_t removed_bytes = 0;
};

// Removes rings without a writer (collector/rings/clean.h): those older than the maximum age, then the oldest until the
// rest is within the size. A ring with a record from the last ten minutes is never removed because of the size, because
// someone may be about to read it. `by_age` is false if the wall clock is unreliable. Follows no links; a folder must
// belong to the user in its name, and a ring to its folder's owner. Skips what cannot be opened, and folders outside
// memory: on a disk that hosts share, rings of other hosts' living processes look dead. May hang with a file system.
RetainedRings RetainRings(const RingRetentionOptions& options, bool by_age);

// Cleans up periodically on its own thread, which is abandoned if a file system hangs.
class RingRetainer {
 public:
  RingRetainer(const RingRetentionOptions& options, std::function<void(const std::string&)> log);
  ~RingRetainer();
  // Call about once a second from the owner's thread; logs removals.
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
