// The common beginning of every exported CUDA runtime function.
#pragma once

#include "recorder/abi/nccl.h"
#include "recorder/calls/cuda_calls.h"
#include "recorder/core/real.h"

// Finds the real function as `real`. If nothing is recorded, calls it and returns.
#define LOCKSTEP_RUNTIME(NAME, ARGUMENTS)                                                    \
  static RealFunction function = {#NAME};                                                    \
  const void* caller = LOCKSTEP_CALLER;                                                      \
  const auto real = reinterpret_cast<decltype(&NAME)>(RealCuda(&function, caller));          \
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return lockstep::recorder::kRuntimeNotInitialised; \
  if (!lockstep::recorder::RuntimeIsWatched(caller)) return real ARGUMENTS;                  \
  const lockstep::recorder::RuntimeCall inside

// Exports NAME, which forwards to the real function, surrounded by SEE if the call is recorded.
#define LOCKSTEP_CUDA(NAME, PARAMETERS, ARGUMENTS, SEE)  \
  LOCKSTEP_EXPORT int NAME PARAMETERS {                  \
    LOCKSTEP_RUNTIME(NAME, ARGUMENTS);                   \
    const auto forward = [&] { return real ARGUMENTS; }; \
    return SEE;                                          \
  }
// Like LOCKSTEP_CUDA, for NAME and its variant NAME_ptsz. SEE may use `on`: the parameter `stream` or, if NAME_ptsz is
// called with null, the thread's own default stream.
#define LOCKSTEP_CUDA_STREAM(NAME, PARAMETERS, ARGUMENTS, SEE)                           \
  LOCKSTEP_CUDA(NAME, PARAMETERS, ARGUMENTS, [&](CudaStream on) { return SEE; }(stream)) \
  LOCKSTEP_CUDA(NAME##_ptsz, PARAMETERS, ARGUMENTS, [&](CudaStream on) { return SEE; }(OwnDefault(stream)))
