// Finds waits of a process for its own GPU that only its stacks show. The recorder does not see kernel launches, which
// wait while the launch queue is full. If recording of CUDA calls is off, the recorder sees no waits at all.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep {

// Returns the wait that a function of the CUDA runtime, the CUDA driver or HIP performs, by its name; kNone if it does
// not wait. A launch counts as a wait, because a thread sampled in one has probably found the launch queue full.
ring::CallKind GpuWaitOf(std::string_view function);

// Returns a copy of the thread that last made recorded calls, with the wait that the process's stacks show.
// `wait_since_ns` is the end of its last recorded call. Empty if a thread's recorded state already shows a call or
// wait, or if the stacks are older than the last recorded call. Also empty if the stacks show no wait, a different one
// in the second sample, or another activity (activity.h).
std::optional<ring::ThreadSnapshot> GpuWaitInStacks(const std::vector<ring::ThreadSnapshot>& threads,
                                                    const Process& process);
inline std::optional<ring::ThreadSnapshot> GpuWaitInStacks(const Rank& rank) {
  return GpuWaitInStacks(rank.threads, rank.process);
}

}  // namespace lockstep
