// Time stamps: the processor's own counter if it is invariant, else CLOCK_MONOTONIC nanoseconds.
#ifndef LOCKSTEP_RECORDER_BASE_CLOCK_H_
#define LOCKSTEP_RECORDER_BASE_CLOCK_H_

#include <stdint.h>
#include <time.h>

#include "recorder/ring/layout.h"

namespace lockstep::recorder {

// Set once by ChooseClock, before the first stamp.
extern bool g_use_counter;

inline uint64_t MonotonicNs() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

inline uint64_t Counter() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
  return MonotonicNs();
#endif
}

inline uint64_t Now() noexcept {
  if (__builtin_expect(g_use_counter, 1)) return Counter();
  return MonotonicNs();
}

// Picks the counter; `force_monotonic` for tests and for hosts whose counters are known to drift.
ring::TickKind ChooseClock(bool force_monotonic) noexcept;

// The three clocks at one instant: the tightest of a few tries.
ring::ClockTriple ReadTriple() noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_BASE_CLOCK_H_
