// Wrappers of the HIP functions in which a CPU thread waits or that order streams: the same subset as for CUDA,
// recorded in the same way. The _spt variants are for the per-thread default stream.
#include "recorder/abi/nccl.h"
#include "recorder/calls/cuda_calls.h"
#include "recorder/core/real.h"

using namespace lockstep::recorder;
using lockstep::ring::CallKind;

// Exports NAME, which forwards to the real function, surrounded by SEE if the call is recorded.
#define LOCKSTEP_HIP(NAME, PARAMETERS, ARGUMENTS, SEE)                                \
  LOCKSTEP_EXPORT int NAME PARAMETERS {                                               \
    static RealFunction function = {#NAME};                                           \
    const void* caller = LOCKSTEP_CALLER;                                             \
    const auto real = reinterpret_cast<decltype(&NAME)>(RealCuda(&function, caller)); \
    if (LOCKSTEP_UNLIKELY(real == nullptr)) return kRuntimeNotInitialised;            \
    if (!WaitsAreWatched(caller)) return real ARGUMENTS;                              \
    const auto forward = [&] { return real ARGUMENTS; };                              \
    return SEE;                                                                       \
  }
// Like LOCKSTEP_HIP, for NAME and its variant NAME_spt. SEE may use `on`: the parameter `stream` or, if NAME_spt is
// called with null, the thread's own default stream.
#define LOCKSTEP_HIP_STREAM(NAME, PARAMETERS, ARGUMENTS, SEE)                           \
  LOCKSTEP_HIP(NAME, PARAMETERS, ARGUMENTS, [&](CudaStream on) { return SEE; }(stream)) \
  LOCKSTEP_HIP(NAME##_spt, PARAMETERS, ARGUMENTS, [&](CudaStream on) { return SEE; }(OwnDefault(stream)))

LOCKSTEP_HIP_STREAM(hipStreamSynchronize, (CudaStream stream), (stream), SeeStreamSynchronize(on, forward))
LOCKSTEP_HIP(hipDeviceSynchronize, (), (), SeeWait(CallKind::kDeviceSynchronize, forward))
LOCKSTEP_HIP(hipEventSynchronize, (void* event), (event), SeeEventSynchronize(event, forward))

LOCKSTEP_HIP(hipMemcpy, (void* to, const void* from, size_t bytes, int kind), (to, from, bytes, kind),
             SeeWait(CallKind::kMemcpy, forward))
LOCKSTEP_HIP(hipMemcpy_spt, (void* to, const void* from, size_t bytes, int kind), (to, from, bytes, kind),
             SeeWait(CallKind::kMemcpy, forward))
LOCKSTEP_HIP(hipMemcpyDtoH, (void* to, void* from, size_t bytes), (to, from, bytes),
             SeeWait(CallKind::kMemcpy, forward))
LOCKSTEP_HIP(hipMemcpyHtoD, (void* to, const void* from, size_t bytes), (to, from, bytes),
             SeeWait(CallKind::kMemcpy, forward))
// PyTorch copies with this function where, with CUDA, it uses an asynchronous copy and a wait.
LOCKSTEP_HIP(hipMemcpyWithStream, (void* to, const void* from, size_t bytes, int kind, CudaStream stream),
             (to, from, bytes, kind, stream), AroundStreamWait(CallKind::kMemcpy, stream, forward))
LOCKSTEP_HIP_STREAM(hipMemcpyAsync, (void* to, const void* from, size_t bytes, int kind, CudaStream stream),
                    (to, from, bytes, kind, stream), SeeAsyncCopy(on, forward))
LOCKSTEP_HIP_STREAM(hipMemcpy2DAsync,
                    (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                     int kind, CudaStream stream),
                    (to, to_pitch, from, from_pitch, width, height, kind, stream), SeeAsyncCopy(on, forward))
LOCKSTEP_HIP_STREAM(hipMemcpy3DAsync, (const void* parameters, CudaStream stream), (parameters, stream),
                    SeeAsyncCopy(on, forward))
LOCKSTEP_HIP(hipMemcpyDtoHAsync, (void* to, void* from, size_t bytes, CudaStream stream), (to, from, bytes, stream),
             SeeAsyncCopy(stream, forward))
LOCKSTEP_HIP(hipMemcpyHtoDAsync, (void* to, const void* from, size_t bytes, CudaStream stream),
             (to, from, bytes, stream), SeeAsyncCopy(stream, forward))
LOCKSTEP_HIP(hipMemcpyPeerAsync,
             (void* to, int to_device, const void* from, int from_device, size_t bytes, CudaStream stream),
             (to, to_device, from, from_device, bytes, stream), SeeAsyncCopy(stream, forward))

LOCKSTEP_HIP(hipMalloc, (void** address, size_t bytes), (address, bytes), SeeWait(CallKind::kCudaMalloc, forward))
LOCKSTEP_HIP(hipFree, (void* address), (address), SeeWait(CallKind::kCudaFree, forward))

LOCKSTEP_HIP_STREAM(hipEventRecord, (void* event, CudaStream stream), (event, stream),
                    SeeEventRecord(event, on, forward))
LOCKSTEP_HIP_STREAM(hipStreamWaitEvent, (CudaStream stream, void* event, unsigned flags), (stream, event, flags),
                    SeeStreamWait(on, event, forward))
LOCKSTEP_HIP(hipStreamDestroy, (CudaStream stream), (stream), SeeStreamDestroy(stream, forward))
