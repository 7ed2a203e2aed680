// Waits of a process for its own GPU that only its stacks show: the recorder does not see kernel launches, which wait
// while the launch queue is full, nor anything where its CUDA calls are switched off.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_GPU_WAIT_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_GPU_WAIT_H_

#include <optional>
#include <string_view>

#include "analyzer/model/bundle.h"

namespace lockstep {

// The wait that a function of CUDA's runtime, its driver or HIP is, by its name; kNone: it is none. A launch counts: a
// thread that is seen in one has found the launch queue full.
ring::CallKind GpuWaitOf(std::string_view function);

// The thread that last made recorded calls, with the wait that the rank's stacks show, as if its cell said so:
// `wait_since_ns` is the end of its last recorded call. Empty: a cell says what the threads are in; the stacks show no
// such wait, a different one at the second look, or were taken before the last recorded call.
std::optional<ring::ThreadSnapshot> GpuWaitInStacks(const Rank& rank);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_GPU_WAIT_H_
