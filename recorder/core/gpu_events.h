// LOCKSTEP_GPU=events: CUDA events before and behind the operations of a stream, made beforehand and used again, and
// one thread of low priority that looks at them. It writes the streams' mark lines and the ring's times.
//
// A stream's events have one producer at a time (whoever holds the stream's tickets) and one consumer, the thread.
#ifndef LOCKSTEP_RECORDER_CORE_GPU_EVENTS_H_
#define LOCKSTEP_RECORDER_CORE_GPU_EVENTS_H_

#include <stdint.h>

#include "recorder/base/driver.h"

namespace lockstep::recorder {

// Makes the stream's first events; its context is current. False if the driver cannot, which goes into the note.
bool MakeEvents(uint32_t stream, void* context) noexcept;
// There is room for one more operation.
bool HasEvents(uint32_t stream) noexcept;
// The stream's context is current. `timed`: use events with times. False: not recorded; returns the driver's error, or
// 0 if no event was left.
bool RecordStart(uint32_t stream, void* handle, uint64_t ticket, uint64_t now, bool timed,
                 DriverResult* result) noexcept;
bool RecordEnd(uint32_t stream, void* handle, uint64_t ticket, DriverResult* result) noexcept;
// The last operation whose start was recorded gets no end of its own.
void DropStart(uint32_t stream) noexcept;
// They were destroyed with their context.
void ForgetStreamEvents(uint32_t stream) noexcept;
void ForgetAllEvents() noexcept;  // in a forked child, whose thread does not exist

// Starts the thread, once; it finds its work itself. Does nothing in other modes.
void StartPolling() noexcept;
// Keeps the thread outside the driver between the two calls; the caller takes its place. False: it hangs in the driver.
bool HoldPolling() noexcept;
// In its place: a last look at the streams of a device, of all for -1.
void LookOnce(int32_t device) noexcept;
void ReleasePolling() noexcept;
void ForgetPolling() noexcept;  // in a forked child

// For this thread only: polls the due events of a stream. Keen: an operation is active, and an early look helps to
// align the clocks.
enum class Look { kIdle, kBusy, kKeen };
Look PollStream(uint32_t stream) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_CORE_GPU_EVENTS_H_
