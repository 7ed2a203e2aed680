// The cost of recording, which the recorder measures itself at one call in kSampleEvery. If the cost exceeds the
// budget, steps reduce it: fewer and then no GPU progress markers (not in mode `profiler`), no recorded CUDA calls, no
// recording. Each step is written into the header's note. Nothing here waits.
#pragma once

#include <stdint.h>

#include "recorder/base/clock.h"

namespace lockstep::recorder {

struct ThreadState;

inline constexpr uint32_t kSampleEvery = 128;  // a power of two
inline constexpr uint32_t kOwnSamples = 16;

// One kind of recorder work on one thread: how often it ran, and its latest cost samples in ticks.
struct OwnTime {
  uint32_t done;
  uint32_t samples;
  uint64_t ticks[kOwnSamples];
};

// The work on one thread. `ops` are recorded calls, `groups` the ends of groups, `tables` CUDA events and stream
// waits.
struct OwnTimes {
  OwnTime ops, groups, tables;
  uint64_t since;  // ticks at the start of this round; 0 if it starts at the next sample
};

// LOCKSTEP_BUDGET: "N%" of a thread's time, "Nns" for each call, or "off". The default, also for an invalid value, is
// 5%. A share applies only if a call costs more than 5 us. Otherwise a program that only calls NCCL would make the
// recorder look expensive.
struct Budget {
  uint32_t permille;  // 0 if there is no share
  uint32_t call_ns;   // limit for one call; if there is also a share, both must be exceeded
};
Budget ReadBudget(const char* text) noexcept;
void SetBudget(Budget budget) noexcept;

// Counts one piece of work and returns whether to measure it.
inline bool SampleNow(OwnTime* own) noexcept { return __builtin_expect((++own->done & (kSampleEvery - 1)) == 1, 0); }
// Adds a measured piece of work that took `ticks`.
void AddOwnTime(OwnTime* own, uint64_t ticks) noexcept;

// Called after a new sample of `ops`. Evaluates the round if it has enough samples, and may take one step that reduces
// the cost.
void JudgeOwnTime(ThreadState* thread) noexcept;

}  // namespace lockstep::recorder
