// Events of the stand-in: the engine's part, which both libraries use, and the driver's functions.
#include <cuda.h>
#include <standin.h>
#include <stdio.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "tests/standin/cuda/capture.h"
#include "tests/standin/cuda/engine.h"

namespace standin {
namespace {

using Clock = std::chrono::steady_clock;

struct Event {
  int device = 0;
  bool timing = true;
  bool blocking = false;
  // The last recording. Each recording has its own time, so that a queued recording cannot change an earlier
  // measurement.
  bool recorded = false;
  StreamPoint point;
  std::shared_ptr<Clock::time_point> time;
};

struct Events {
  std::mutex mutex;
  std::unordered_map<void*, std::unique_ptr<Event>> all;
};

Events& TheEvents() {
  static auto* events = new Events;
  return *events;
}

bool CopyEvent(void* handle, Event* event) {
  Events& events = TheEvents();
  const std::lock_guard lock(events.mutex);
  const auto at = events.all.find(handle);
  if (at == events.all.end()) {
    return false;
  }
  *event = *at->second;
  return true;
}

}  // namespace

void* CreateEvent(int device, bool timing, bool blocking) {
  auto made = std::make_unique<Event>();
  made->device = device;
  made->timing = timing;
  made->blocking = blocking;
  void* const handle = made.get();
  Events& events = TheEvents();
  const std::lock_guard lock(events.mutex);
  events.all[handle] = std::move(made);
  return handle;
}

bool DestroyEvent(void* handle) {
  Events& events = TheEvents();
  const std::lock_guard lock(events.mutex);
  return events.all.erase(handle) != 0;
}

void DestroyEventsOf(int device) {
  Events& events = TheEvents();
  const std::lock_guard lock(events.mutex);
  std::erase_if(events.all, [device](const auto& entry) { return entry.second->device == device; });
}

size_t EventCount() {
  Events& events = TheEvents();
  const std::lock_guard lock(events.mutex);
  return events.all.size();
}

int RecordEvent(void* handle, const std::shared_ptr<Stream>& stream) {
  // This happens before the lock is taken, because other threads may need events while this thread waits.
  if (!CaptureOf(stream)) {
    WaitForRoom(*stream);
  }
  Events& events = TheEvents();
  const std::lock_guard lock(events.mutex);
  const auto at = events.all.find(handle);
  if (at == events.all.end() || at->second->device != StreamDevice(*stream)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (const int error = StickyError(at->second->device)) {
    return error;
  }
  auto time = std::make_shared<Clock::time_point>();
  at->second->recorded = true;
  at->second->time = time;
  at->second->point = Enqueue(stream, [time] { *time = Clock::now(); });
  return CUDA_SUCCESS;
}

int QueryEvent(void* handle) {
  Event event;
  if (!CopyEvent(handle, &event)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (const int refused = CheckEvent(event.point)) {
    return refused;
  }
  if (const int error = StickyError(event.device)) {
    return error;
  }
  return Reached(event.point) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

int WaitForEvent(void* handle) {
  Event event;
  if (!CopyEvent(handle, &event)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (const int refused = CheckEvent(event.point)) {
    return refused;
  }
  HostWaitFor(event.point, event.blocking ? HostWait::kBlock : HostWait::kAuto);
  return StickyError(event.device);
}

int ElapsedTime(float* milliseconds, void* start, void* end) {
  Event first;
  Event second;
  if (!milliseconds) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!CopyEvent(start, &first) || !CopyEvent(end, &second) || !first.recorded || !second.recorded || !first.timing ||
      !second.timing || first.device != second.device) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (const int error = StickyError(first.device)) {
    return error;
  }
  if (!Reached(first.point) || !Reached(second.point)) {
    return CUDA_ERROR_NOT_READY;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(*second.time - *first.time).count();
  return CUDA_SUCCESS;
}

bool EventPoint(void* handle, StreamPoint* point) {
  Event event;
  if (!CopyEvent(handle, &event)) {
    return false;
  }
  *point = event.recorded ? event.point : StreamPoint{};
  return true;
}

}  // namespace standin

#define STANDIN_CUDA extern "C" STANDIN_EXPORT CUresult

namespace {

// CUDA does not define what a destroyed event's handle does, so no caller may rely on an error.
CUresult Result(int result) {
  if (result == CUDA_ERROR_INVALID_HANDLE) {
    fprintf(stderr, "stand-in: the driver was given an event that does not exist, or of another context\n");
    abort();
  }
  return static_cast<CUresult>(result);
}

}  // namespace

STANDIN_CUDA cuEventCreate(CUevent* event, unsigned int flags) {
  if (standin::BoundDevice() < 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (!event || flags > 7) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const int error = standin::StickyError(standin::BoundDevice())) {
    return static_cast<CUresult>(error);
  }
  *event = static_cast<CUevent>(standin::CreateEvent(standin::BoundDevice(), (flags & CU_EVENT_DISABLE_TIMING) == 0,
                                                     (flags & CU_EVENT_BLOCKING_SYNC) != 0));
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuEventDestroy_v2(CUevent event) {
  return Result(standin::DestroyEvent(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

STANDIN_CUDA cuEventRecord(CUevent event, CUstream handle) {
  if (standin::BoundDevice() < 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  const auto stream = standin::FindStream(handle);
  if (!stream) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (const int refused = standin::CheckUse(stream)) {
    return static_cast<CUresult>(refused);
  }
  return Result(standin::RecordEvent(event, stream));
}

STANDIN_CUDA cuEventQuery(CUevent event) {
  if (standin::BoundDevice() < 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  return Result(standin::QueryEvent(event));
}

STANDIN_CUDA cuEventSynchronize(CUevent event) {
  if (standin::BoundDevice() < 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  return Result(standin::WaitForEvent(event));
}

STANDIN_CUDA cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  if (standin::BoundDevice() < 0) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  return Result(standin::ElapsedTime(milliseconds, start, end));
}

#undef cuEventElapsedTime
STANDIN_CUDA cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}

extern "C" STANDIN_EXPORT size_t standinEvents() { return standin::EventCount(); }
