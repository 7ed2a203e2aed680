// The cost of recording, measured by the recorder itself at one call in kSampleEvery, and the steps to reduce it if it
// exceeds the budget: GPU marks first, then CUDA's table updates, then recording as a whole. Each step and its time go
// into the header's note. Nothing here waits; of two threads at one step, the loser does nothing.
#ifndef LOCKSTEP_RECORDER_CORE_BUDGET_H_
#define LOCKSTEP_RECORDER_CORE_BUDGET_H_

#include <stdint.h>

#include "recorder/base/clock.h"

namespace lockstep::recorder {

struct ThreadState;

inline constexpr uint32_t kSampleEvery = 128;  // a power of two
inline constexpr uint32_t kOwnSamples = 16;

// One kind of the recorder's work on one thread: how often it ran, and the newest samples of its cost, in ticks.
struct OwnTime {
  uint32_t done;
  uint32_t samples;
  uint64_t ticks[kOwnSamples];
};

// Of one thread. `ops` are recorded calls, `groups` the ends of groups, `tables` CUDA's events and stream waits.
struct OwnTimes {
  OwnTime ops, groups, tables;
  uint64_t since;  // ticks at the start of this round; 0: at the next sample
};

// LOCKSTEP_BUDGET: "N%" of a thread's time (with at least 5 us a call, so that a host that does nothing but call NCCL
// is not mistaken for an expensive recorder), "Nns" a call, "off". Anything else, and nothing: 5%.
struct Budget {
  uint32_t permille;  // 0: not by share
  uint32_t call_ns;   // limit of a call; if a share is set too, both must be exceeded
};
Budget ReadBudget(const char* text) noexcept;
void SetBudget(Budget budget) noexcept;

// True if this piece of work is to be measured.
inline bool SampleNow(OwnTime* own) noexcept {
  return __builtin_expect((++own->done & (kSampleEvery - 1)) == 1, 0);
}
// `ticks` of a measured piece.
void AddOwnTime(OwnTime* own, uint64_t ticks) noexcept;

// After a new sample of `ops`: judges the round if it has enough samples, and may take one step down.
void JudgeOwnTime(ThreadState* thread) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_CORE_BUDGET_H_
