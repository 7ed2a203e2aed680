// The time that jobs ran on each day, for rates per job-day.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::archive {

struct JobDay {
  std::string day, job;  // day: as "2026-11-22", in UTC
  uint64_t seconds = 0;  // seconds on that day
  uint32_t ranks = 0;    // 0 if unknown
};

// Parses lines JOB|START|END[|RANKS], as `sacct -X -n -P -o JobID,Start,End,NTasks` prints them, with local times
// ("2026-11-20T10:00:00") or seconds since 1970. "Unknown" as the END means now. Skips jobs that never started
// ("Unknown", "None"). Splits each job by day. InvalidArgument names the first invalid line.
absl::StatusOr<std::vector<JobDay>> ReadJobDays(const std::string& text, int64_t now_s);

}  // namespace lockstep::archive
