// The beginning of each exported function of the CUDA runtime.
#ifndef LOCKSTEP_RECORDER_CALLS_CUDA_H_
#define LOCKSTEP_RECORDER_CALLS_CUDA_H_

#include "recorder/abi/nccl.h"
#include "recorder/calls/cuda_calls.h"
#include "recorder/core/real.h"

// Finds the real function as `real`, and calls it at once if nothing is recorded.
#define LOCKSTEP_RUNTIME(NAME, ARGUMENTS)                                                    \
  static RealFunction function = {#NAME};                                                    \
  const void* caller = LOCKSTEP_CALLER;                                                      \
  const auto real = reinterpret_cast<decltype(&NAME)>(RealCuda(&function, caller));          \
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return lockstep::recorder::kRuntimeNotInitialised; \
  if (!lockstep::recorder::RuntimeIsWatched(caller)) return real ARGUMENTS;                  \
  const lockstep::recorder::RuntimeCall inside

#endif  // LOCKSTEP_RECORDER_CALLS_CUDA_H_
