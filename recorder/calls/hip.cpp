// Wrappers of the HIP functions in which a CPU thread waits or that order streams: the same subset as for CUDA,
// recorded in the same way. The _spt twins are for the per-thread default stream.
#include "recorder/abi/nccl.h"
#include "recorder/core/host_waits.h"
#include "recorder/core/real.h"

using namespace lockstep::recorder;
using lockstep::ring::CallKind;

#define LOCKSTEP_REAL_HIP(NAME)                                                     \
  static RealFunction function = {#NAME};                                           \
  const void* caller = LOCKSTEP_CALLER;                                             \
  const auto real = reinterpret_cast<decltype(&NAME)>(RealCuda(&function, caller)); \
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kRuntimeNotInitialised

#define LOCKSTEP_HIP_WAIT(NAME, KIND, PARAMETERS, ARGUMENTS)                     \
  LOCKSTEP_EXPORT int NAME PARAMETERS {                                          \
    LOCKSTEP_REAL_HIP(NAME);                                                     \
    if (!WaitsAreWatched(caller)) return real ARGUMENTS;                         \
    return AroundWait(CallKind::KIND, kNone, 0, [&] { return real ARGUMENTS; }); \
  }
#define LOCKSTEP_HIP_STREAM_WAIT(NAME, KIND, PARAMETERS, ARGUMENTS)                  \
  LOCKSTEP_EXPORT int NAME PARAMETERS {                                              \
    LOCKSTEP_REAL_HIP(NAME);                                                         \
    if (!WaitsAreWatched(caller)) return real ARGUMENTS;                             \
    return AroundStreamWait(CallKind::KIND, stream, [&] { return real ARGUMENTS; }); \
  }
LOCKSTEP_HIP_STREAM_WAIT(hipStreamSynchronize, kStreamSynchronize, (CudaStream stream), (stream))
LOCKSTEP_HIP_STREAM_WAIT(hipStreamSynchronize_spt, kStreamSynchronize, (CudaStream stream), (stream))
LOCKSTEP_HIP_WAIT(hipDeviceSynchronize, kDeviceSynchronize, (), ())

LOCKSTEP_EXPORT int hipEventSynchronize(void* event) {
  LOCKSTEP_REAL_HIP(hipEventSynchronize);
  if (!WaitsAreWatched(caller)) return real(event);
  uint64_t ticket = 0;
  const uint32_t stream = EventStream(event, &ticket);
  return AroundWait(CallKind::kEventSynchronize, stream, ticket, [&] { return real(event); });
}

#define LOCKSTEP_HIP_ASYNC_COPY(NAME, PARAMETERS, ARGUMENTS)          \
  LOCKSTEP_HIP_STREAM_WAIT(NAME, kMemcpyAsync, PARAMETERS, ARGUMENTS) \
  LOCKSTEP_HIP_STREAM_WAIT(NAME##_spt, kMemcpyAsync, PARAMETERS, ARGUMENTS)

LOCKSTEP_HIP_WAIT(hipMemcpy, kMemcpy, (void* to, const void* from, size_t bytes, int kind), (to, from, bytes, kind))
LOCKSTEP_HIP_WAIT(hipMemcpy_spt, kMemcpy, (void* to, const void* from, size_t bytes, int kind), (to, from, bytes, kind))
LOCKSTEP_HIP_WAIT(hipMemcpyDtoH, kMemcpy, (void* to, void* from, size_t bytes), (to, from, bytes))
LOCKSTEP_HIP_WAIT(hipMemcpyHtoD, kMemcpy, (void* to, const void* from, size_t bytes), (to, from, bytes))
// PyTorch copies with this function where, with CUDA, it uses an asynchronous copy and a wait.
LOCKSTEP_HIP_STREAM_WAIT(hipMemcpyWithStream, kMemcpy,
                         (void* to, const void* from, size_t bytes, int kind, CudaStream stream),
                         (to, from, bytes, kind, stream))
// If the host memory is pageable, the CPU thread waits as in blocking copies.
LOCKSTEP_HIP_ASYNC_COPY(hipMemcpyAsync, (void* to, const void* from, size_t bytes, int kind, CudaStream stream),
                        (to, from, bytes, kind, stream))
LOCKSTEP_HIP_ASYNC_COPY(hipMemcpy2DAsync,
                        (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         int kind, CudaStream stream),
                        (to, to_pitch, from, from_pitch, width, height, kind, stream))
LOCKSTEP_HIP_ASYNC_COPY(hipMemcpy3DAsync, (const void* parameters, CudaStream stream), (parameters, stream))
LOCKSTEP_HIP_STREAM_WAIT(hipMemcpyDtoHAsync, kMemcpyAsync, (void* to, void* from, size_t bytes, CudaStream stream),
                         (to, from, bytes, stream))
LOCKSTEP_HIP_STREAM_WAIT(hipMemcpyHtoDAsync, kMemcpyAsync,
                         (void* to, const void* from, size_t bytes, CudaStream stream), (to, from, bytes, stream))
LOCKSTEP_HIP_STREAM_WAIT(hipMemcpyPeerAsync, kMemcpyAsync,
                         (void* to, int to_device, const void* from, int from_device, size_t bytes, CudaStream stream),
                         (to, to_device, from, from_device, bytes, stream))

LOCKSTEP_HIP_WAIT(hipMalloc, kCudaMalloc, (void** address, size_t bytes), (address, bytes))
LOCKSTEP_HIP_WAIT(hipFree, kCudaFree, (void* address), (address))

#define LOCKSTEP_HIP_EVENT_RECORD(NAME)                                           \
  LOCKSTEP_EXPORT int NAME(void* event, CudaStream stream) {                      \
    LOCKSTEP_REAL_HIP(NAME);                                                      \
    const int result = real(event, stream);                                       \
    if (result == 0 && WaitsAreWatched(caller)) NoteEventRecorded(event, stream); \
    return result;                                                                \
  }
LOCKSTEP_HIP_EVENT_RECORD(hipEventRecord)
LOCKSTEP_HIP_EVENT_RECORD(hipEventRecord_spt)

#define LOCKSTEP_HIP_WAIT_EVENT(NAME)                                           \
  LOCKSTEP_EXPORT int NAME(CudaStream stream, void* event, unsigned flags) {    \
    LOCKSTEP_REAL_HIP(NAME);                                                    \
    const int result = real(stream, event, flags);                              \
    if (result == 0 && WaitsAreWatched(caller)) NoteStreamWaits(stream, event); \
    return result;                                                              \
  }
LOCKSTEP_HIP_WAIT_EVENT(hipStreamWaitEvent)
LOCKSTEP_HIP_WAIT_EVENT(hipStreamWaitEvent_spt)

LOCKSTEP_EXPORT int hipStreamDestroy(CudaStream stream) {
  LOCKSTEP_REAL_HIP(hipStreamDestroy);
  if (!WaitsAreWatched(caller)) return real(stream);
  const uint32_t index = ForgetStream(stream);
  const int result = real(stream);
  if (result != 0 && index != kNone && Recording()) KeepStream(index, stream);
  return result;
}
