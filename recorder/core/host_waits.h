// Shared by the wrappers of runtime calls in which a CPU thread waits.
#pragma once

#include "recorder/core/process.h"
#include "recorder/core/streams.h"

namespace lockstep::recorder {

inline constexpr int kRuntimeNotInitialised = 3;  // equals cudaErrorInitializationError: no runtime is loaded

inline bool WaitsAreWatched(const void* caller) noexcept { return Recording() && g.cuda && !FromNccl(caller); }

inline uint64_t IssuedOnStream(uint32_t stream) noexcept {
  return stream == kNone ? 0 : Load(&g.map.streams[stream].issued);
}

template <typename Forward>
inline int AroundWait(ring::CallKind kind, uint32_t stream, uint64_t ticket, Forward forward) noexcept {
  const bool entered = EnterWait(kind, stream, ticket);
  const int result = forward();
  if (entered) LeaveWait();
  return result;
}

template <typename Forward>
inline int AroundStreamWait(ring::CallKind kind, const void* stream, Forward forward) noexcept {
  const uint32_t index = KnownStream(stream);
  return AroundWait(kind, index, IssuedOnStream(index), forward);
}

}  // namespace lockstep::recorder
