// libcudart: streams, events, copies and host functions.
#include <cuda_runtime_api.h>
#include <string.h>

#include <utility>
#include <vector>

#include "tests/standin/cuda/capture.h"
#include "tests/standin/cuda/engine.h"
#include "tests/standin/cuda/runtime.h"

using standin::Error;
using standin::Report;

namespace {

bool ValidKind(cudaMemcpyKind kind) { return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault; }

// Returns the error that ended the stream's context, or cudaSuccess.
cudaError_t Sticky(const standin::Stream& stream) {
  return Report(static_cast<cudaError_t>(standin::StickyError(standin::StreamDevice(stream))));
}

}  // namespace

STANDIN_CUDART cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int) {
  if (!stream || flags > cudaStreamNonBlocking) {
    return Report(cudaErrorInvalidValue);
  }
  *stream =
      static_cast<cudaStream_t>(standin::CreateStream(standin::CurrentDevice(), (flags & cudaStreamNonBlocking) != 0));
  return cudaSuccess;
}

STANDIN_CUDART cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

STANDIN_CUDART cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

STANDIN_CUDART cudaStreamDestroy(cudaStream_t stream) {
  return Report(standin::DestroyStream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

STANDIN_CUDART cudaStreamSynchronize(cudaStream_t handle) {
  const auto stream = standin::FindStream(handle);
  if (!stream) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  if (const int refused = standin::CheckWait(stream)) {
    return Error(refused);
  }
  if (reinterpret_cast<uintptr_t>(handle) > 2) {
    // Waits in the driver, as the real runtime does, so that a program that hooked this driver function sees the wait.
    DRIVER(cuStreamSynchronize)(reinterpret_cast<CUstream>(handle));
    return Sticky(*stream);
  }
  // An empty operation makes the legacy stream wait for the blocking streams, too.
  standin::HostWaitFor(reinterpret_cast<uintptr_t>(handle) <= 1 ? standin::Enqueue(stream, {}) : standin::Tail(stream));
  return Sticky(*stream);
}

STANDIN_CUDART cudaStreamQuery(cudaStream_t handle) {
  const auto stream = standin::FindStream(handle);
  if (!stream) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  if (const cudaError_t error = Sticky(*stream); error != cudaSuccess) {
    return error;
  }
  if (const int refused = standin::CheckWait(stream)) {
    return Error(refused);
  }
  return standin::Reached(standin::Tail(stream)) ? cudaSuccess : cudaErrorNotReady;
}

STANDIN_CUDART cudaStreamGetFlags(cudaStream_t handle, unsigned int* flags) {
  const auto stream = standin::FindStream(handle);
  if (!stream || !flags) {
    return Report(stream ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
  }
  *flags = standin::StreamNonBlocking(*stream) ? cudaStreamNonBlocking : cudaStreamDefault;
  return cudaSuccess;
}

STANDIN_CUDART cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  const auto stream = standin::FindStream(handle);
  if (!stream || !function) {
    return Report(stream ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
  }
  if (const int refused = standin::CheckUse(stream)) {
    return Error(refused);
  }
  standin::Enqueue(stream, [function, data] { function(data); });
  return Sticky(*stream);
}

STANDIN_CUDART cudaDeviceSynchronize() {
  if (const int refused = standin::CheckUnsafe()) {
    return Error(refused);
  }
  std::vector<standin::StreamPoint> tails;
  for (const auto& stream : standin::StreamsOf(standin::CurrentDevice())) {
    tails.push_back(standin::Tail(stream));
  }
  for (const auto& tail : tails) {
    standin::HostWaitFor(tail);
  }
  return Report(static_cast<cudaError_t>(standin::StickyError(standin::CurrentDevice())));
}

STANDIN_CUDART cudaDeviceReset() {
  cudaDeviceSynchronize();
  standin::ResetDevice(standin::CurrentDevice());
  return cudaSuccess;
}

STANDIN_CUDART cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  if (!event || flags > 7) {
    return Report(cudaErrorInvalidValue);
  }
  *event = static_cast<cudaEvent_t>(standin::CreateEvent(
      standin::CurrentDevice(), (flags & cudaEventDisableTiming) == 0, (flags & cudaEventBlockingSync) != 0));
  return cudaSuccess;
}

STANDIN_CUDART cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

STANDIN_CUDART cudaEventDestroy(cudaEvent_t event) {
  return Report(standin::DestroyEvent(event) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

STANDIN_CUDART cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned int) {
  const auto stream = standin::FindStream(handle);
  if (!stream) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  if (const int refused = standin::CheckUse(stream)) {
    return Error(refused);
  }
  return Error(standin::RecordEvent(event, stream));
}

STANDIN_CUDART cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

STANDIN_CUDART cudaEventQuery(cudaEvent_t event) { return Error(standin::QueryEvent(event)); }

STANDIN_CUDART cudaEventSynchronize(cudaEvent_t event) {
  return Report(static_cast<cudaError_t>(standin::WaitForEvent(event)));
}

STANDIN_CUDART cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return Error(standin::ElapsedTime(milliseconds, start, end));
}

STANDIN_CUDART cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t waited, unsigned int) {
  const auto stream = standin::FindStream(handle);
  standin::StreamPoint point;
  if (!stream || !standin::EventPoint(waited, &point)) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  if (point.stream) {
    if (const int refused = standin::CheckStreamWait(stream, point)) {
      return Error(refused);
    }
    standin::Enqueue(stream, {}, {point});
  }
  return cudaSuccess;
}

STANDIN_CUDART cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                 size_t height, cudaMemcpyKind kind, cudaStream_t handle) {
  const auto stream = standin::FindStream(handle);
  if (!stream) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  if (!ValidKind(kind)) {
    return Report(cudaErrorInvalidMemcpyDirection);
  }
  if (width == 0 || height == 0) {
    return cudaSuccess;
  }
  if (!to || !from || width > to_pitch || width > from_pitch) {
    return Report(cudaErrorInvalidValue);
  }
  if (const int refused = standin::CheckUse(stream)) {
    return Error(refused);
  }
  const size_t bytes = from_pitch * (height - 1) + width;
  standin::EnqueueCopy(stream, to, from, bytes, [=](const void* source) {
    for (size_t row = 0; row < height; ++row) {
      memmove(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(source) + row * from_pitch, width);
    }
  });
  return Sticky(*stream);
}

STANDIN_CUDART cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t handle) {
  return cudaMemcpy2DAsync(to, size, from, size, size, 1, kind, handle);
}

// Programs built for per-thread default streams use this name.
STANDIN_CUDART cudaMemcpyAsync_ptsz(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, size, kind, stream ? stream : cudaStreamPerThread);
}

STANDIN_CUDART cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t size,
                                   cudaStream_t stream) {
  if (!standin::ValidDevice(to_device) || !standin::ValidDevice(from_device)) {
    return Report(cudaErrorInvalidDevice);
  }
  return cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream);
}

STANDIN_CUDART cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* sizes, size_t count,
                                    cudaMemcpyAttributes*, size_t*, size_t, cudaStream_t stream) {
  if (reinterpret_cast<uintptr_t>(stream) <= 1) {
    return Report(cudaErrorInvalidValue);
  }
  for (size_t i = 0; i < count; ++i) {
    if (const cudaError_t result = cudaMemcpyAsync(to[i], from[i], sizes[i], cudaMemcpyDefault, stream);
        result != cudaSuccess) {
      return result;
    }
  }
  return cudaSuccess;
}

STANDIN_CUDART cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
  if (const int refused = standin::CheckUnsafe()) {
    return Error(refused);
  }
  const cudaError_t result = cudaMemcpyAsync(to, from, size, kind, nullptr);
  if (result == cudaSuccess && size != 0) {
    standin::HostWaitFor(standin::Tail(standin::FindStream(nullptr)));
    return Sticky(*standin::FindStream(nullptr));
  }
  return result;
}

STANDIN_CUDART cudaMemsetAsync(void* pointer, int value, size_t size, cudaStream_t handle) {
  const auto stream = standin::FindStream(handle);
  if (!stream) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  if (size == 0) {
    return cudaSuccess;
  }
  if (!pointer) {
    return Report(cudaErrorInvalidValue);
  }
  if (const int refused = standin::CheckUse(stream)) {
    return Error(refused);
  }
  standin::Enqueue(stream, [pointer, value, size] { memset(pointer, value, size); });
  return Sticky(*stream);
}

STANDIN_CUDART cudaMemset(void* pointer, int value, size_t size) {
  return cudaMemsetAsync(pointer, value, size, nullptr);
}

STANDIN_CUDART cudaMallocAsync(void** pointer, size_t size, cudaStream_t stream) {
  if (!pointer) {
    return Report(cudaErrorInvalidValue);
  }
  if (!standin::FindStream(stream)) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  *pointer = size == 0 ? nullptr : standin::Allocate(size, standin::MemoryKind::kDevice);
  return Report(*pointer || size == 0 ? cudaSuccess : cudaErrorMemoryAllocation);
}

STANDIN_CUDART cudaFreeAsync(void* pointer, cudaStream_t handle) {
  const auto stream = standin::FindStream(handle);
  if (!stream) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  if (pointer && !standin::KnownMemory(pointer, 1)) {
    return Report(cudaErrorInvalidValue);
  }
  if (pointer) {
    standin::Enqueue(stream, [pointer] { standin::Release(pointer, standin::MemoryKind::kDevice); });
  }
  return cudaSuccess;
}
