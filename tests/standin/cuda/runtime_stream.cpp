// libcudart: streams, events, copies and host functions.
#include <cuda_runtime_api.h>
#include <string.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "tests/standin/cuda/engine.h"
#include "tests/standin/cuda/runtime.h"

using standin::Report;

namespace {

using Clock = std::chrono::steady_clock;

struct Event {
  bool timing = true;
  // The last recording; each has a time of its own, so that one still queued cannot change what an earlier one measured.
  bool recorded = false;
  standin::StreamPoint point;
  std::shared_ptr<Clock::time_point> time;
};

struct Events {
  std::mutex mutex;
  std::unordered_map<cudaEvent_t, std::unique_ptr<Event>> all;
};

Events& TheEvents() {
  static auto* events = new Events;
  return *events;
}

bool CopyEvent(cudaEvent_t handle, Event* event) {
  Events& events = TheEvents();
  const std::lock_guard lock(events.mutex);
  const auto at = events.all.find(handle);
  if (at == events.all.end()) {
    return false;
  }
  *event = *at->second;
  return true;
}

bool ValidKind(cudaMemcpyKind kind) { return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault; }

}  // namespace

STANDIN_CUDART cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int) {
  if (!stream || flags > cudaStreamNonBlocking) {
    return Report(cudaErrorInvalidValue);
  }
  *stream = static_cast<cudaStream_t>(
      standin::CreateStream(standin::CurrentDevice(), (flags & cudaStreamNonBlocking) != 0));
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
  // An empty operation, so that the legacy stream also waits for the blocking streams.
  standin::WaitFor(reinterpret_cast<uintptr_t>(handle) <= 1 ? standin::Enqueue(stream, {}) : standin::Tail(stream));
  return cudaSuccess;
}

STANDIN_CUDART cudaStreamQuery(cudaStream_t handle) {
  const auto stream = standin::FindStream(handle);
  if (!stream) {
    return Report(cudaErrorInvalidResourceHandle);
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

STANDIN_CUDART cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  if (!status) {
    return Report(cudaErrorInvalidValue);
  }
  if (!standin::FindStream(handle)) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

STANDIN_CUDART cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long*,
                                        cudaGraph_t*, const cudaGraphNode_t**, const cudaGraphEdgeData**, size_t*) {
  return cudaStreamIsCapturing(handle, status);
}

// The names by which programs built with CUDA 12 and with per-thread default streams ask.
STANDIN_CUDART cudaStreamGetCaptureInfo_v2(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long*,
                                           cudaGraph_t*, const cudaGraphNode_t**, size_t*) {
  return cudaStreamIsCapturing(handle, status);
}

STANDIN_CUDART cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
  if (!mode) {
    return Report(cudaErrorInvalidValue);
  }
  std::swap(current, *mode);
  return cudaSuccess;
}

STANDIN_CUDART cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  const auto stream = standin::FindStream(handle);
  if (!stream || !function) {
    return Report(stream ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
  }
  standin::Enqueue(stream, [function, data] { function(data); });
  return cudaSuccess;
}

STANDIN_CUDART cudaDeviceSynchronize() {
  std::vector<standin::StreamPoint> tails;
  for (const auto& stream : standin::StreamsOf(standin::CurrentDevice())) {
    tails.push_back(standin::Tail(stream));
  }
  for (const auto& tail : tails) {
    standin::WaitFor(tail);
  }
  return cudaSuccess;
}

STANDIN_CUDART cudaDeviceReset() { return cudaDeviceSynchronize(); }

STANDIN_CUDART cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  if (!event || flags > 7) {
    return Report(cudaErrorInvalidValue);
  }
  auto made = std::make_unique<Event>();
  made->timing = (flags & cudaEventDisableTiming) == 0;
  const auto handle = reinterpret_cast<cudaEvent_t>(made.get());
  Events& events = TheEvents();
  const std::lock_guard lock(events.mutex);
  events.all[handle] = std::move(made);
  *event = handle;
  return cudaSuccess;
}

STANDIN_CUDART cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

STANDIN_CUDART cudaEventDestroy(cudaEvent_t event) {
  Events& events = TheEvents();
  const std::lock_guard lock(events.mutex);
  return Report(events.all.erase(event) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

STANDIN_CUDART cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned int) {
  const auto stream = standin::FindStream(handle);
  if (!stream) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  Events& events = TheEvents();
  const std::lock_guard lock(events.mutex);
  const auto at = events.all.find(event);
  if (at == events.all.end()) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  auto time = std::make_shared<Clock::time_point>();
  at->second->recorded = true;
  at->second->time = time;
  at->second->point = standin::Enqueue(stream, [time] { *time = Clock::now(); });
  return cudaSuccess;
}

STANDIN_CUDART cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

STANDIN_CUDART cudaEventQuery(cudaEvent_t handle) {
  Event event;
  if (!CopyEvent(handle, &event)) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  return standin::Reached(event.point) ? cudaSuccess : cudaErrorNotReady;
}

STANDIN_CUDART cudaEventSynchronize(cudaEvent_t handle) {
  Event event;
  if (!CopyEvent(handle, &event)) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  standin::WaitFor(event.point);
  return cudaSuccess;
}

STANDIN_CUDART cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  Event first;
  Event second;
  if (!milliseconds) {
    return Report(cudaErrorInvalidValue);
  }
  if (!CopyEvent(start, &first) || !CopyEvent(end, &second) || !first.recorded || !second.recorded || !first.timing ||
      !second.timing) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  if (!standin::Reached(first.point) || !standin::Reached(second.point)) {
    return cudaErrorNotReady;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(*second.time - *first.time).count();
  return cudaSuccess;
}

STANDIN_CUDART cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t waited, unsigned int) {
  const auto stream = standin::FindStream(handle);
  Event event;
  if (!stream || !CopyEvent(waited, &event)) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  if (event.recorded) {
    standin::Enqueue(stream, {}, {event.point});
  }
  return cudaSuccess;
}

STANDIN_CUDART cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t handle) {
  const auto stream = standin::FindStream(handle);
  if (!stream) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  if (!ValidKind(kind)) {
    return Report(cudaErrorInvalidMemcpyDirection);
  }
  if (size == 0) {
    return cudaSuccess;
  }
  if (!to || !from) {
    return Report(cudaErrorInvalidValue);
  }
  standin::Enqueue(stream, [to, from, size] { memmove(to, from, size); });
  return cudaSuccess;
}

STANDIN_CUDART cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
  const cudaError_t result = cudaMemcpyAsync(to, from, size, kind, nullptr);
  if (result == cudaSuccess && size != 0) {
    standin::WaitFor(standin::Tail(standin::FindStream(nullptr)));
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
  standin::Enqueue(stream, [pointer, value, size] { memset(pointer, value, size); });
  return cudaSuccess;
}

STANDIN_CUDART cudaMemset(void* pointer, int value, size_t size) {
  return cudaMemsetAsync(pointer, value, size, nullptr);
}

STANDIN_CUDART cudaMallocAsync(void** pointer, size_t size, cudaStream_t stream) {
  if (!standin::FindStream(stream)) {
    return Report(cudaErrorInvalidResourceHandle);
  }
  return cudaMalloc(pointer, size);
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
