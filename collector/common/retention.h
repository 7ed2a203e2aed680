// Decides which incidents are kept: those below an age, and the newest of them within a size. Never touches files that
// are not incidents of this user, the newest incident, and those still being gathered.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace lockstep {

struct RetentionLimits {
  int64_t age_s = 7 * 86400;           // 0 for any age
  uint64_t bytes = uint64_t{5} << 30;  // size on disk of all incidents in the folder; 0 for no limit
};

struct RetentionRequest {
  RetentionLimits limits;
  int64_t now_s = 0;   // wall clock
  bool by_age = true;  // false if the clock is not reliable now
  bool dry_run = false;
  // Called with a line for each incident that is removed ("removed ...", "would remove ...") or cannot be; with
  // `say_kept` also for the others.
  std::function<void(const std::string&)> say;
  bool say_kept = false;
};

struct Retained {
  int removed = 0, kept = 0, failed = 0;
  uint64_t removed_bytes = 0;
};

// Examines FOLDER/lockstep-incident-*. Needs no disk space, follows no link, and enters no folder inside an incident:
// an incident with foreign files is kept, and the reason reported. A removal starts with a rename, so nobody sees half
// an incident; the next run finishes an interrupted removal. Fails if FOLDER cannot be opened, or is a link.
absl::StatusOr<Retained> RetainIncidents(const std::string& folder, const RetentionRequest& request);

// Decides whether the wall clock may be used for ages: not for an hour after it was set. Both arguments are in
// nanoseconds.
class TrustedClock {
 public:
  bool Trust(int64_t mono_ns, int64_t real_ns);

 private:
  bool known_ = false;
  int64_t offset_ns_ = 0, stepped_ns_ = 0;
  bool stepped_ = false;
};

}  // namespace lockstep
