// The work around each intercepted call of the CUDA runtime and the CUDA driver. It only updates tables.
// `forward` makes the real call. A call that passes both layers is recorded once: the driver's wrappers do nothing
// while the thread is in a wrapped runtime call.
#pragma once

#include "recorder/core/graphs.h"
#include "recorder/core/host_waits.h"

namespace lockstep::recorder {

inline bool RuntimeIsWatched(const void* caller) noexcept {
  return Recording() && g.cuda && (g.cuda_layers & kCudaRuntime) != 0 && !FromNccl(caller);
}
inline bool DriverIsWatched(const void* caller) noexcept {
  return Recording() && g.cuda && (g.cuda_layers & kCudaDriver) != 0 && !t_local.in_runtime && !FromNccl(caller);
}

// While an object of this class exists, the thread is inside a wrapped call of the runtime.
class RuntimeCall {
 public:
  RuntimeCall() noexcept : before_(t_local.in_runtime) { t_local.in_runtime = true; }
  ~RuntimeCall() { t_local.in_runtime = before_; }
  RuntimeCall(const RuntimeCall&) = delete;
  RuntimeCall& operator=(const RuntimeCall&) = delete;

 private:
  bool before_;
};

// In calls with the suffix _ptsz or _spt, null means the calling thread's own default stream (handle 2).
inline void* OwnDefault(void* stream) noexcept {
  return stream == nullptr ? reinterpret_cast<void*>(uintptr_t{2}) : stream;
}

template <typename Forward>
inline int SeeStreamSynchronize(void* stream, Forward forward) noexcept {
  return AroundStreamWait(ring::CallKind::kStreamSynchronize, stream, forward);
}

// The CPU thread waits in this call if pageable host memory is involved. Checking the memory would cost more than
// recording the call. A call that does not wait returns before a reader sees it.
template <typename Forward>
inline int SeeAsyncCopy(void* stream, Forward forward) noexcept {
  return AroundStreamWait(ring::CallKind::kMemcpyAsync, stream, forward);
}

template <typename Forward>
inline int SeeEventSynchronize(void* event, Forward forward) noexcept {
  uint64_t ticket = 0;
  const uint32_t stream = EventStream(event, &ticket);
  return AroundWait(ring::CallKind::kEventSynchronize, stream, ticket, forward);
}

// Any other call that may block, for no stream in particular.
template <typename Forward>
inline int SeeWait(ring::CallKind kind, Forward forward) noexcept {
  return AroundWait(kind, kNone, 0, forward);
}

template <typename Forward>
inline int SeeEventRecord(void* event, void* stream, Forward forward) noexcept {
  const int result = forward();
  if (result == 0 && Recording()) NoteEventRecorded(event, stream);
  return result;
}

template <typename Forward>
inline int SeeStreamWait(void* stream, void* event, Forward forward) noexcept {
  const int result = forward();
  if (result == 0 && Recording()) NoteStreamWaits(stream, event);
  return result;
}

// The handle may have belonged to another stream whose destruction the recorder missed.
template <typename Forward>
inline int SeeStreamCreate(void** stream, Forward forward) noexcept {
  const int result = forward();
  if (result == 0 && Recording() && stream != nullptr && *stream != nullptr) ForgetStream(*stream);
  return result;
}

template <typename Forward>
inline int SeeStreamDestroy(void* stream, Forward forward) noexcept {
  const uint32_t index = ForgetStream(stream);
  const int result = forward();
  if (result != 0 && index != kNone && Recording()) KeepStream(index, stream);
  return result;
}

template <typename Forward>
inline int SeeEventCreate(void** event, Forward forward) noexcept {
  const int result = forward();
  if (result == 0 && Recording() && event != nullptr && *event != nullptr) ForgetEvent(*event);
  return result;
}

template <typename Forward>
inline int SeeEventDestroy(void* event, Forward forward) noexcept {
  ForgetEvent(event);
  return forward();
}

template <typename Forward>
inline int SeeCaptureBegin(void* stream, Forward forward) noexcept {
  const int result = forward();
  if (result == 0 && Recording()) NoteCaptureBegun(stream);
  return result;
}

template <typename Forward>
inline int SeeCaptureEnd(void* stream, void** graph, Forward forward) noexcept {
  const uint64_t capture = NoteCaptureEnding(stream);
  const int result = forward();
  // A capture also ends if ending it fails, unless this stream did not begin it or was not capturing.
  constexpr int kInvalidValue = 1, kUnmatched = 903, kWrongThread = 908;
  const bool over =
      result == 0 || (capture != 0 && result != kInvalidValue && result != kUnmatched && result != kWrongThread);
  if (over && Recording()) NoteCaptureEnded(capture, result == 0 && graph != nullptr ? *graph : nullptr);
  return result;
}

template <typename Forward>
inline int SeeInstantiate(void** exec, void* graph, Forward forward) noexcept {
  const int result = SeeWait(ring::CallKind::kGraphInstantiate, forward);
  if (result == 0 && Recording() && exec != nullptr) NoteInstantiated(graph, *exec);
  return result;
}

template <typename Forward>
inline int SeeClone(void** clone, void* graph, Forward forward) noexcept {
  const int result = forward();
  if (result == 0 && Recording() && clone != nullptr) NoteInstantiated(graph, *clone);
  return result;
}

template <typename Forward>
inline int SeeExecUpdate(void* exec, void* graph, Forward forward) noexcept {
  const int result = forward();
  if (result == 0 && Recording()) NoteExecUpdated(exec, graph);
  return result;
}

template <typename Forward>
inline int SeeAddChild(void* graph, void* child, Forward forward) noexcept {
  const int result = forward();
  if (result == 0 && Recording()) NoteChildAdded(graph, child);
  return result;
}

template <typename Forward>
inline int SeeGraphDestroy(void* handle, Forward forward) noexcept {
  const uint64_t forgotten = ForgetGraphHandle(handle);
  const int result = SeeWait(ring::CallKind::kGraphDestroy, forward);
  if (result != 0 && forgotten != 0 && Recording()) KeepGraphHandle(handle, forgotten);
  return result;
}

template <typename Forward>
inline int SeeLaunch(void* exec, void* stream, Forward forward) noexcept {
  LaunchInFlight flight;
  if (!BeginLaunch(exec, stream, &flight)) return forward();
  const int result = forward();
  EndLaunch(&flight, result);
  return result;
}

}  // namespace lockstep::recorder
