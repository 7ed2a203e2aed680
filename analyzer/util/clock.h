// The system's clocks in nanoseconds.
#pragma once

#include <time.h>

#include <cstdint>

namespace lockstep {

inline int64_t ClockNs(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}
inline int64_t MonotonicNs() { return ClockNs(CLOCK_MONOTONIC); }
inline int64_t RealtimeNs() { return ClockNs(CLOCK_REALTIME); }
// CPU time of the calling thread.
inline int64_t ThreadCpuNs() { return ClockNs(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace lockstep
