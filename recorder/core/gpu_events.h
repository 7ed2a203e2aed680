// LOCKSTEP_GPU=events: CUDA events before and after the operations of a stream. They are created in advance and reused,
// and one low-priority thread polls them. That thread writes the streams' marker lines, and the times in
// the ring.
//
// A stream's events have one producer at a time (the owner of the stream's tickets) and one consumer at a time: the
// polling thread, or the thread that holds it back (HoldPolling).
#pragma once

#include <stdint.h>

#include "recorder/base/driver.h"

namespace lockstep::recorder {

// Creates the stream's first events. The stream's context must be current. Returns false if the driver cannot create
// them.
bool MakeEvents(uint32_t stream, void* context) noexcept;
// Returns whether there is room for one more operation.
bool HasEvents(uint32_t stream) noexcept;
// The stream's context must be current. With `timed`, uses events with times. Returns false if nothing was recorded;
// *result is then the driver's error, or 0 if no event was free or the stream is no longer polled.
bool RecordStart(uint32_t stream, void* handle, uint64_t ticket, uint64_t now, bool timed,
                 DriverResult* result) noexcept;
bool RecordEnd(uint32_t stream, void* handle, uint64_t ticket, DriverResult* result) noexcept;
// Call this if the end of the last operation with a recorded start will not be recorded.
void DropStart(uint32_t stream) noexcept;
// Call this when the events were destroyed with their context.
void ForgetStreamEvents(uint32_t stream) noexcept;
void ForgetAllEvents() noexcept;  // in a forked child, which does not have the thread

// Starts the polling thread once. Does nothing in other modes.
void StartPolling() noexcept;
// Keeps the polling thread out of the driver until ReleasePolling. Waits up to 1 s; returns false if the thread is then
// still in the driver.
bool HoldPolling() noexcept;
// Polls the streams of a device once, or of all devices for -1. HoldPolling must have returned true.
void LookOnce(int32_t device) noexcept;
void ReleasePolling() noexcept;
void ForgetPolling() noexcept;  // in a forked child

// Polls a stream's due events; only for the stream's consumer. kKeen means that an operation is active, and an early
// poll helps to align the clocks.
enum class Look { kIdle, kBusy, kKeen };
Look PollStream(uint32_t stream) noexcept;

}  // namespace lockstep::recorder
