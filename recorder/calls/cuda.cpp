// Wrappers of the CUDA runtime functions that Lockstep records, except graphs: calls in which the CPU thread waits,
// calls that order streams, and calls that create or destroy streams and events. The _ptsz and _ptds variants are for
// programs built with per-thread default streams.
#include "recorder/calls/cuda.h"
#include "recorder/core/gpu_marks.h"

using namespace lockstep::recorder;
using lockstep::ring::CallKind;

LOCKSTEP_CUDA_STREAM(cudaStreamSynchronize, (CudaStream stream), (stream), SeeStreamSynchronize(on, forward))
LOCKSTEP_CUDA(cudaEventSynchronize, (void* event), (event), SeeEventSynchronize(event, forward))

// Calls in which the CPU thread waits, or may wait, for more than one stream: blocking copies and memory management.
#define LOCKSTEP_WAIT(NAME, KIND, PARAMETERS, ARGUMENTS) \
  LOCKSTEP_CUDA(NAME, PARAMETERS, ARGUMENTS, SeeWait(CallKind::KIND, forward))
#define LOCKSTEP_WAIT_TWINS(NAME, KIND, PARAMETERS, ARGUMENTS) \
  LOCKSTEP_WAIT(NAME, KIND, PARAMETERS, ARGUMENTS)             \
  LOCKSTEP_WAIT(NAME##_ptsz, KIND, PARAMETERS, ARGUMENTS)
LOCKSTEP_WAIT(cudaDeviceSynchronize, kDeviceSynchronize, (), ())

// Markers and events must not outlive the device's contexts.
LOCKSTEP_EXPORT int cudaDeviceReset() {
  const DeviceResetting resetting;
  LOCKSTEP_RUNTIME(cudaDeviceReset, ());
  return SeeWait(CallKind::kDeviceSynchronize, [&] { return real(); });
}

#define LOCKSTEP_COPY(NAME, PARAMETERS, ARGUMENTS)    \
  LOCKSTEP_WAIT(NAME, kMemcpy, PARAMETERS, ARGUMENTS) \
  LOCKSTEP_WAIT(NAME##_ptds, kMemcpy, PARAMETERS, ARGUMENTS)
LOCKSTEP_COPY(cudaMemcpy, (void* to, const void* from, size_t bytes, int kind), (to, from, bytes, kind))
LOCKSTEP_COPY(cudaMemcpy2D,
              (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, int kind),
              (to, to_pitch, from, from_pitch, width, height, kind))
LOCKSTEP_COPY(cudaMemcpy3D, (const void* parameters), (parameters))
LOCKSTEP_COPY(cudaMemcpy3DPeer, (const void* parameters), (parameters))
LOCKSTEP_COPY(cudaMemcpyToSymbol, (const void* symbol, const void* from, size_t bytes, size_t offset, int kind),
              (symbol, from, bytes, offset, kind))
LOCKSTEP_COPY(cudaMemcpyFromSymbol, (void* to, const void* symbol, size_t bytes, size_t offset, int kind),
              (to, symbol, bytes, offset, kind))
LOCKSTEP_WAIT(cudaMemcpyPeer, kMemcpy, (void* to, int to_device, const void* from, int from_device, size_t bytes),
              (to, to_device, from, from_device, bytes))

// Copies in stream order. If the host memory is pageable, the CPU thread waits as in blocking copies.
#define LOCKSTEP_ASYNC_COPY(NAME, PARAMETERS, ARGUMENTS) \
  LOCKSTEP_CUDA_STREAM(NAME, PARAMETERS, ARGUMENTS, SeeAsyncCopy(on, forward))
LOCKSTEP_ASYNC_COPY(cudaMemcpyAsync, (void* to, const void* from, size_t bytes, int kind, CudaStream stream),
                    (to, from, bytes, kind, stream))
LOCKSTEP_ASYNC_COPY(cudaMemcpy2DAsync,
                    (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                     int kind, CudaStream stream),
                    (to, to_pitch, from, from_pitch, width, height, kind, stream))
LOCKSTEP_ASYNC_COPY(cudaMemcpy3DAsync, (const void* parameters, CudaStream stream), (parameters, stream))
LOCKSTEP_ASYNC_COPY(cudaMemcpy3DPeerAsync, (const void* parameters, CudaStream stream), (parameters, stream))
LOCKSTEP_CUDA(cudaMemcpyPeerAsync,
              (void* to, int to_device, const void* from, int from_device, size_t bytes, CudaStream stream),
              (to, to_device, from, from_device, bytes, stream), SeeAsyncCopy(stream, forward))
LOCKSTEP_ASYNC_COPY(cudaMemcpyToSymbolAsync,
                    (const void* symbol, const void* from, size_t bytes, size_t offset, int kind, CudaStream stream),
                    (symbol, from, bytes, offset, kind, stream))
LOCKSTEP_ASYNC_COPY(cudaMemcpyFromSymbolAsync,
                    (void* to, const void* symbol, size_t bytes, size_t offset, int kind, CudaStream stream),
                    (to, symbol, bytes, offset, kind, stream))
LOCKSTEP_ASYNC_COPY(cudaMemcpyToArrayAsync,
                    (void* array, size_t left, size_t top, const void* from, size_t bytes, int kind, CudaStream stream),
                    (array, left, top, from, bytes, kind, stream))
LOCKSTEP_ASYNC_COPY(cudaMemcpyFromArrayAsync,
                    (void* to, const void* array, size_t left, size_t top, size_t bytes, int kind, CudaStream stream),
                    (to, array, left, top, bytes, kind, stream))
LOCKSTEP_ASYNC_COPY(cudaMemcpy2DToArrayAsync,
                    (void* array, size_t left, size_t top, const void* from, size_t pitch, size_t width, size_t height,
                     int kind, CudaStream stream),
                    (array, left, top, from, pitch, width, height, kind, stream))
LOCKSTEP_ASYNC_COPY(cudaMemcpy2DFromArrayAsync,
                    (void* to, size_t pitch, const void* array, size_t left, size_t top, size_t width, size_t height,
                     int kind, CudaStream stream),
                    (to, pitch, array, left, top, width, height, kind, stream))
// CUDA 12.8 and 12.9 have a parameter for the index of the copy that failed, before the stream (3D: before the
// flags). Later versions do not. The longer parameter list is passed on. Which parameter is the stream is unknown.
LOCKSTEP_WAIT_TWINS(cudaMemcpyBatchAsync, kMemcpyAsync,
                    (void* to, void* from, void* sizes, size_t count, void* attributes, void* indexes, size_t number,
                     void* eighth, void* ninth),
                    (to, from, sizes, count, attributes, indexes, number, eighth, ninth))
LOCKSTEP_WAIT_TWINS(cudaMemcpy3DBatchAsync, kMemcpyAsync,
                    (size_t count, void* operations, uint64_t third, uint64_t fourth, void* fifth),
                    (count, operations, third, fourth, fifth))
// Since CUDA 13.2.
LOCKSTEP_ASYNC_COPY(cudaMemcpyWithAttributesAsync,
                    (void* to, const void* from, size_t bytes, void* attributes, CudaStream stream),
                    (to, from, bytes, attributes, stream))
LOCKSTEP_ASYNC_COPY(cudaMemcpy3DWithAttributesAsync, (void* operation, uint64_t flags, CudaStream stream),
                    (operation, flags, stream))

LOCKSTEP_WAIT(cudaMalloc, kCudaMalloc, (void** address, size_t bytes), (address, bytes))
LOCKSTEP_WAIT(cudaMallocManaged, kCudaMalloc, (void** address, size_t bytes, unsigned flags), (address, bytes, flags))
LOCKSTEP_WAIT(cudaMallocPitch, kCudaMalloc, (void** address, size_t* pitch, size_t width, size_t height),
              (address, pitch, width, height))
LOCKSTEP_WAIT(cudaFree, kCudaFree, (void* address), (address))
LOCKSTEP_WAIT(cudaMallocHost, kHostAlloc, (void** address, size_t bytes), (address, bytes))
LOCKSTEP_WAIT(cudaHostAlloc, kHostAlloc, (void** address, size_t bytes, unsigned flags), (address, bytes, flags))
LOCKSTEP_WAIT(cudaHostRegister, kHostAlloc, (void* address, size_t bytes, unsigned flags), (address, bytes, flags))
LOCKSTEP_WAIT(cudaFreeHost, kHostFree, (void* address), (address))
LOCKSTEP_WAIT(cudaHostUnregister, kHostFree, (void* address), (address))
// Ordered by a stream, but the CPU thread waits if the pool must grow or release memory.
LOCKSTEP_WAIT_TWINS(cudaMallocAsync, kCudaMallocAsync, (void** address, size_t bytes, CudaStream stream),
                    (address, bytes, stream))
LOCKSTEP_WAIT_TWINS(cudaMallocFromPoolAsync, kCudaMallocAsync,
                    (void** address, size_t bytes, void* pool, CudaStream stream), (address, bytes, pool, stream))
LOCKSTEP_WAIT_TWINS(cudaFreeAsync, kCudaFreeAsync, (void* address, CudaStream stream), (address, stream))
LOCKSTEP_WAIT(cudaMemPoolTrimTo, kMemPoolTrim, (void* pool, size_t keep), (pool, keep))

LOCKSTEP_CUDA_STREAM(cudaEventRecord, (void* event, CudaStream stream), (event, stream),
                     SeeEventRecord(event, on, forward))
LOCKSTEP_CUDA_STREAM(cudaEventRecordWithFlags, (void* event, CudaStream stream, unsigned flags), (event, stream, flags),
                     SeeEventRecord(event, on, forward))
LOCKSTEP_CUDA_STREAM(cudaStreamWaitEvent, (CudaStream stream, void* event, unsigned flags), (stream, event, flags),
                     SeeStreamWait(on, event, forward))

LOCKSTEP_CUDA(cudaStreamCreate, (CudaStream * stream), (stream), SeeStreamCreate(stream, forward))
LOCKSTEP_CUDA(cudaStreamCreateWithFlags, (CudaStream * stream, unsigned flags), (stream, flags),
              SeeStreamCreate(stream, forward))
LOCKSTEP_CUDA(cudaStreamCreateWithPriority, (CudaStream * stream, unsigned flags, int priority),
              (stream, flags, priority), SeeStreamCreate(stream, forward))
LOCKSTEP_CUDA(cudaStreamDestroy, (CudaStream stream), (stream), SeeStreamDestroy(stream, forward))
LOCKSTEP_CUDA(cudaEventCreate, (void** event), (event), SeeEventCreate(event, forward))
LOCKSTEP_CUDA(cudaEventCreateWithFlags, (void** event, unsigned flags), (event, flags), SeeEventCreate(event, forward))
LOCKSTEP_CUDA(cudaEventDestroy, (void* event), (event), SeeEventDestroy(event, forward))
