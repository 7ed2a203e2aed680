// Streams, the events between them, and the waits of CPU threads for them.
#pragma once

#include "recorder/core/process.h"

namespace lockstep::recorder {

// Returns the stream's index, assigned at its first use; kNone if the table is full. `device` is for the default
// streams, whose handle is the same on every device; -1 means the current one.
uint32_t FindStreamSlow(ThreadState* thread, const void* handle, int32_t device) noexcept;
inline uint32_t FindStream(ThreadState* thread, const void* handle, int32_t device) noexcept {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  ThreadState::Cached& cached = thread->streams[(value >> 4 ^ value >> 9) & 7];
  if (LOCKSTEP_LIKELY(cached.key == handle && value > 2 && Load(&g_tables.stream_handles[cached.index]) == handle)) {
    return cached.index;
  }
  return FindStreamSlow(thread, handle, device);
}
// Represents the stream of an operation that reports none; it has no index.
inline const void* UnknownStream() noexcept { return reinterpret_cast<const void*>(UINTPTR_MAX); }
// Returns the index of a known stream, otherwise kNone. Default streams (null, legacy, per-thread) are looked up on the
// current device.
uint32_t KnownStream(const void* handle) noexcept;

// Called before the program destroys the stream, because its handle may be reused at once. Returns the stream's index,
// or kNone if unknown.
uint32_t ForgetStream(const void* handle) noexcept;
// Called if the stream was not destroyed after all.
void KeepStream(uint32_t index, const void* handle) noexcept;

// Called when the thread has ended, perhaps in the middle of a group. Ends its own default streams and releases its
// tickets.
void ForgetThreadStreams(uint32_t thread) noexcept;

// Called after cudaEventRecord and cudaStreamWaitEvent have succeeded.
void NoteEventRecorded(const void* event, const void* stream) noexcept;
void NoteStreamWaits(const void* stream, const void* event) noexcept;
// Returns the stream that last recorded the event, and its ticket; kNone if unknown.
uint32_t EventStream(const void* event, uint64_t* ticket) noexcept;

// Called when the event is destroyed or its handle is reused.
void ForgetEvent(const void* event) noexcept;

void ForgetEvents() noexcept;  // in a forked child

// EnterWait writes a wait into the thread's cell, and LeaveWait clears it. `stream` is kNone for a wait for the device,
// or if unknown. Waits may be nested (a cudaFree that synchronizes); only the outermost is recorded. Call
// LeaveWait only if EnterWait returned true.
bool EnterWait(ring::CallKind kind, uint32_t stream, uint64_t ticket) noexcept;
void LeaveWait() noexcept;

}  // namespace lockstep::recorder
