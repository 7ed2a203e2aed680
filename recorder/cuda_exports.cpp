// The CUDA runtime calls in which a host waits, and those that order streams: table updates only, no event records.
#include "recorder/nccl_abi.h"
#include "recorder/real.h"
#include "recorder/streams.h"

using namespace lockstep::recorder;
using lockstep::ring::CallKind;

namespace {

constexpr int kNotInitialised = 3;  // cudaErrorInitializationError: no CUDA runtime is loaded

inline bool Watched(const void* caller) noexcept {
  return Recording() && g.cuda && !FromNccl(caller);
}

uint64_t IssuedOn(uint32_t stream) noexcept {
  return stream == kNone ? 0 : Load(&g.map.streams[stream].issued);
}

template <typename Forward>
inline int Wait(CallKind kind, uint32_t stream, uint64_t ticket, Forward forward) noexcept {
  const bool entered = EnterWait(kind, stream, ticket);
  const int result = forward();
  if (entered) LeaveWait();
  return result;
}

uint32_t WaitedStream(const void* stream) noexcept {
  if (reinterpret_cast<uintptr_t>(stream) > 2) return KnownStream(stream);
  ThreadState* thread = Thread();
  // A default stream that no operation used is not worth a place in the table.
  return thread != nullptr && Load(&g.streams_used) != 0 ? KnownDefaultStream(thread, stream) : kNone;
}

}  // namespace

#define LOCKSTEP_REAL(NAME)                                                         \
  static RealFunction function = {#NAME};                                           \
  const void* caller = LOCKSTEP_CALLER;                                             \
  const auto real = reinterpret_cast<decltype(&NAME)>(RealCuda(&function, caller)); \
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNotInitialised

#define LOCKSTEP_STREAM_SYNCHRONIZE(NAME)                                                            \
  LOCKSTEP_EXPORT int NAME(CudaStream stream) {                                                      \
    LOCKSTEP_REAL(NAME);                                                                             \
    if (!Watched(caller)) return real(stream);                                                       \
    const uint32_t index = WaitedStream(stream);                                                     \
    return Wait(CallKind::kStreamSynchronize, index, IssuedOn(index), [&] { return real(stream); }); \
  }
LOCKSTEP_STREAM_SYNCHRONIZE(cudaStreamSynchronize)
LOCKSTEP_STREAM_SYNCHRONIZE(cudaStreamSynchronize_ptsz)

LOCKSTEP_EXPORT int cudaEventSynchronize(void* event) {
  LOCKSTEP_REAL(cudaEventSynchronize);
  if (!Watched(caller)) return real(event);
  uint64_t ticket = 0;
  const uint32_t stream = EventStream(event, &ticket);
  return Wait(CallKind::kEventSynchronize, stream, ticket, [&] { return real(event); });
}

LOCKSTEP_EXPORT int cudaDeviceSynchronize() {
  LOCKSTEP_REAL(cudaDeviceSynchronize);
  if (!Watched(caller)) return real();
  return Wait(CallKind::kDeviceSynchronize, kNone, 0, [&] { return real(); });
}

#define LOCKSTEP_MEMCPY(NAME)                                                              \
  LOCKSTEP_EXPORT int NAME(void* to, const void* from, size_t bytes, int kind) {           \
    LOCKSTEP_REAL(NAME);                                                                   \
    if (!Watched(caller)) return real(to, from, bytes, kind);                              \
    return Wait(CallKind::kMemcpy, kNone, 0, [&] { return real(to, from, bytes, kind); }); \
  }
LOCKSTEP_MEMCPY(cudaMemcpy)
LOCKSTEP_MEMCPY(cudaMemcpy_ptds)

LOCKSTEP_EXPORT int cudaMalloc(void** address, size_t bytes) {
  LOCKSTEP_REAL(cudaMalloc);
  if (!Watched(caller)) return real(address, bytes);
  return Wait(CallKind::kCudaMalloc, kNone, 0, [&] { return real(address, bytes); });
}

LOCKSTEP_EXPORT int cudaFree(void* address) {
  LOCKSTEP_REAL(cudaFree);
  if (!Watched(caller)) return real(address);
  return Wait(CallKind::kCudaFree, kNone, 0, [&] { return real(address); });
}

#define LOCKSTEP_EVENT_RECORD(NAME)                                       \
  LOCKSTEP_EXPORT int NAME(void* event, CudaStream stream) {              \
    LOCKSTEP_REAL(NAME);                                                  \
    const int result = real(event, stream);                               \
    if (result == 0 && Watched(caller)) NoteEventRecorded(event, stream); \
    return result;                                                        \
  }
LOCKSTEP_EVENT_RECORD(cudaEventRecord)
LOCKSTEP_EVENT_RECORD(cudaEventRecord_ptsz)

#define LOCKSTEP_STREAM_WAIT(NAME)                                           \
  LOCKSTEP_EXPORT int NAME(CudaStream stream, void* event, unsigned flags) { \
    LOCKSTEP_REAL(NAME);                                                     \
    const int result = real(stream, event, flags);                           \
    if (result == 0 && Watched(caller)) NoteStreamWaits(stream, event);      \
    return result;                                                           \
  }
LOCKSTEP_STREAM_WAIT(cudaStreamWaitEvent)
LOCKSTEP_STREAM_WAIT(cudaStreamWaitEvent_ptsz)

LOCKSTEP_EXPORT int cudaStreamDestroy(CudaStream stream) {
  LOCKSTEP_REAL(cudaStreamDestroy);
  if (!Watched(caller)) return real(stream);
  const uint32_t index = ForgetStream(stream);
  const int result = real(stream);
  if (result != 0 && index != kNone && Recording()) KeepStream(index, stream);
  return result;
}
