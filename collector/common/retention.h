// Removes incidents above an age limit, and the oldest ones above a size limit. Never touches anything that is not an
// incident of this user, the newest incident, or incidents that are still being gathered.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace lockstep {

struct RetentionLimits {
  int64_t age_s = 7 * 86400;           // 0 for no limit
  uint64_t bytes = uint64_t{5} << 30;  // size on disk of all incidents in the folder; 0 for no limit
};

struct RetentionRequest {
  RetentionLimits limits;
  int64_t now_s = 0;   // wall clock
  bool by_age = true;  // false if the clock is not reliable now
  bool dry_run = false;
  // Called with one line for each incident that is removed ("removed ...", "would remove ...") or cannot be removed;
  // with `say_kept`, also for the others.
  std::function<void(const std::string&)> say;
  bool say_kept = false;
};

struct Retained {
  int removed = 0, kept = 0, failed = 0;
  uint64_t removed_bytes = 0;
};

// Examines FOLDER/lockstep-incident-*. Needs no disk space, follows no link, and enters no folder inside an incident:
// it keeps an incident with foreign files. A removal starts with a rename, so nobody sees a partial incident; the next
// run finishes an interrupted removal. Fails if FOLDER cannot be opened or is a link.
absl::StatusOr<Retained> RetainIncidents(const std::string& folder, const RetentionRequest& request);

// Detects jumps of the wall clock. Trust returns false for an hour after the clock was set by more than a minute. Call
// it regularly, with both clocks in nanoseconds.
class TrustedClock {
 public:
  bool Trust(int64_t mono_ns, int64_t real_ns);

 private:
  bool known_ = false;
  int64_t offset_ns_ = 0, stepped_ns_ = 0;
  bool stepped_ = false;
};

}  // namespace lockstep
