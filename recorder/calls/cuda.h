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
