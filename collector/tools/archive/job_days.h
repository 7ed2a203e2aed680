// Run times of jobs by day, for rates over job-days.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::archive {

struct JobDay {
  std::string day, job;  // "2026-11-22", UTC
  uint64_t seconds = 0;  // seconds of that day
  uint32_t ranks = 0;    // 0 if unknown
};

// Parses lines JOB|START|END[|RANKS], as `sacct -X -n -P -o JobID,Start,End,NTasks` prints them, with local times
// ("2026-11-20T10:00:00") or seconds since 1970. An END of "Unknown" means now. Jobs that never began ("Unknown",
// "None") are skipped. Splits the job of each line into days. InvalidArgument names the first invalid line.
absl::StatusOr<std::vector<JobDay>> ReadJobDays(const std::string& text, int64_t now_s);

}  // namespace lockstep::archive
