// Streams, the events between them, and the waits of CPU threads for them.
#ifndef LOCKSTEP_RECORDER_CORE_STREAMS_H_
#define LOCKSTEP_RECORDER_CORE_STREAMS_H_

#include "recorder/core/process.h"

namespace lockstep::recorder {

// The stream's index, assigned at its first use; kNone if the table is full. `device` is used for the default streams,
// whose handle is the same on every device; -1: the current one.
uint32_t FindStreamSlow(ThreadState* thread, const void* handle, int32_t device) noexcept;
inline uint32_t FindStream(ThreadState* thread, const void* handle, int32_t device) noexcept {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  ThreadState::Cached& cached = thread->streams[(value >> 4 ^ value >> 9) & 7];
  if (LOCKSTEP_LIKELY(cached.key == handle && value > 2 && Load(&g_tables.stream_handles[cached.index]) == handle)) {
    return cached.index;
  }
  return FindStreamSlow(thread, handle, device);
}
// For an operation without a reported stream; it has no index.
inline const void* UnknownStream() noexcept {
  return reinterpret_cast<const void*>(UINTPTR_MAX);
}
// The index of a known stream, else kNone; of a default stream (null, legacy, per-thread) the current device's.
uint32_t KnownStream(const void* handle) noexcept;

// Before the program destroys the stream, because its handle may be reused at once. Its index, kNone if unknown.
uint32_t ForgetStream(const void* handle) noexcept;
// The stream was not destroyed after all.
void KeepStream(uint32_t index, const void* handle) noexcept;

// The thread has ended, perhaps in the middle of a group: its own default streams end, and its tickets are free.
void ForgetThreadStreams(uint32_t thread) noexcept;

// cudaEventRecord and cudaStreamWaitEvent, after they succeeded.
void NoteEventRecorded(const void* event, const void* stream) noexcept;
void NoteStreamWaits(const void* stream, const void* event) noexcept;
// The last stream of an event and its ticket; kNone if unknown.
uint32_t EventStream(const void* event, uint64_t* ticket) noexcept;

// The event is destroyed, or its handle reused.
void ForgetEvent(const void* event) noexcept;

void ForgetEvents() noexcept;  // in a forked child

// Writes a wait into the thread's cell, and clears it. `stream` kNone: the device, or unknown. Waits may nest (a
// cudaFree that synchronizes). Only the outermost is recorded, and Leave is called only if Enter returned true.
bool EnterWait(ring::CallKind kind, uint32_t stream, uint64_t ticket) noexcept;
void LeaveWait() noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_CORE_STREAMS_H_
