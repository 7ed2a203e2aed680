// Time stamps: the CPU's own counter if it is invariant, otherwise CLOCK_MONOTONIC in nanoseconds.
#pragma once

#include <stdint.h>
#include <time.h>

#include "recorder/base/sys.h"
#include "recorder/ring/layout.h"

namespace lockstep::recorder {

// Set once by ChooseClock, before the first stamp.
extern bool g_use_counter;

inline uint64_t Nanoseconds(const timespec& time) noexcept {
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

// Reads CLOCK_MONOTONIC with a system call: wait loops need a clock that advances, and a preloaded tool (libfaketime)
// may stop libc's.
inline uint64_t MonotonicNs() noexcept {
  timespec now;
  if (Sys(SYS_clock_gettime, long{CLOCK_MONOTONIC}, &now) != 0) clock_gettime(CLOCK_MONOTONIC, &now);
  return Nanoseconds(now);
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
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);  // without a system call
  return Nanoseconds(now);
}

// Chooses the counter. `force_monotonic` is for tests and for hosts whose counters drift.
ring::TickKind ChooseClock(bool force_monotonic) noexcept;

// Reads the three clocks a few times and returns the reading that took the shortest time.
ring::ClockTriple ReadTriple() noexcept;

}  // namespace lockstep::recorder
