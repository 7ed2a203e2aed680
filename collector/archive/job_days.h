// Run times of jobs by day, for rates over job-days.
#ifndef LOCKSTEP_COLLECTOR_ARCHIVE_JOB_DAYS_H_
#define LOCKSTEP_COLLECTOR_ARCHIVE_JOB_DAYS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::archive {

struct JobDay {
  std::string day, job;  // "2026-11-22", UTC
  uint64_t seconds = 0;  // of that day
  uint32_t ranks = 0;    // 0 not known
};

// Lines JOB|START|END[|RANKS], as `sacct -X -n -P -o JobID,Start,End,NTasks` prints them: local times
// ("2026-11-20T10:00:00") or seconds since 1970; an END of "Unknown" is now; jobs that never began ("Unknown", "None")
// are left out. Each job of a line is cut into days. InvalidArgument names the first line that makes no sense.
absl::StatusOr<std::vector<JobDay>> ReadJobDays(const std::string& text, int64_t now_s);

}  // namespace lockstep::archive

#endif  // LOCKSTEP_COLLECTOR_ARCHIVE_JOB_DAYS_H_
