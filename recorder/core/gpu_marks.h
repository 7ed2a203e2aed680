// The GPU's progress on each stream, recorded in one of two ways. Either the GPU writes a ticket into the stream's line
// in the ring file when it reaches that point (cuStreamWriteValue64). Or events are recorded there, and a recorder
// thread polls them (gpu_events.h). The driver is looked up among the loaded objects at run time and never loaded. The
// program never sees driver errors, and they never count as a completion.
#pragma once

#include <stdint.h>

#include "recorder/core/process.h"

namespace lockstep::recorder {

inline constexpr uint8_t kWayMarks = 1, kWayEvents = 2;  // StreamLocal::ways

// Finds a way to record the stream's progress when the stream is first used. Leaves `ways` 0 if there is none, and
// `tries` above 0 if there may be one later.
void EnableMarks(StreamLocal* stream) noexcept;

// Returns true if the table still has the same stream under this handle. False if the stream was destroyed and its
// handle was reused unnoticed. Do not call it for a capturing stream: CUDA never returns the number of a capturing
// stream, and the call invalidates the capture (driver 580.159; undocumented).
bool IsSameStream(const StreamLocal& stream) noexcept;

enum class Capture { kNo, kYes, kUnknown };
// Returns whether the stream is being captured, and into which graph. Calls the driver; does not disturb a capture.
Capture QueryCapture(const StreamLocal& stream, uint64_t* graph) noexcept;

// Returns true if the stream's progress can be recorded now, or possibly later. Check for a capture before marking.
inline bool MayMark(const StreamLocal& stream) noexcept {
  return stream.ways != 0 || stream.tries != 0 || stream.identity != 0;
}

// Returns true if the stream's progress can be recorded. Not for a capturing stream.
inline bool MarksReady(StreamLocal* stream) noexcept {
  if (LOCKSTEP_UNLIKELY(stream->ways == 0) && stream->tries != 0) EnableMarks(stream);
  return stream->ways != 0;
}

// One use of an uncaptured stream, by one operation or a whole group: TakeTicket before the NCCL call, StartMark at its
// launch, EndMark afterwards. From TakeTicket to EndMark, the thread owns the stream's tickets. TakeTicket returns 0 if
// the thread cannot get them; the GPU progress of this use is then unknown.
uint64_t TakeTicket(const ThreadState* thread, StreamLocal* stream, bool nonblocking) noexcept;
// `now` is the time in ticks, read just before.
void StartMark(StreamLocal* stream, uint64_t ticket, uint64_t now) noexcept;
void EndMark(StreamLocal* stream, uint64_t ticket) noexcept;

// For non-blocking communicators, NCCL's own thread enqueues the work some time after the call returns. No marker may
// precede that work. So the stream delays its markers until the communicator's state is success; until then, the
// progress of these tickets is unknown.
void HoldMarks(CommLocal* comm, StreamLocal* stream) noexcept;  // between TakeTicket and EndMark
// Returns the argument of SettleMarks. Call it before querying NCCL's state. Returns 0 if a call is in progress,
// because the state then proves nothing.
uint64_t MarksBegun(const CommLocal& comm) noexcept;
// Called when all work of the communicator up to `begun` is on its streams.
void SettleMarks(CommLocal* comm, uint64_t begun) noexcept;
// Like SettleMarks, for work before the operations that end now. The calling thread owns their streams' tickets.
void SettleEarlier(CommLocal* comm) noexcept;
void DropHolds(CommLocal* comm) noexcept;  // called when the communicator has ended

// Notes a GPU error seen on the stream; ignores other errors.
void NoteGpuError(StreamLocal* stream, int32_t error) noexcept;

// Returns the device of the calling thread's current context; -1 without a context or driver.
int32_t CurrentDevice() noexcept;

// Writes driver version, GPU index, UUID and PCI id into the header, once.
void DescribeGpu(int32_t device) noexcept;

// Called before and after a call that destroys a device's contexts with all their streams and events.
void BeginDeviceReset(int32_t device) noexcept;
void EndDeviceReset() noexcept;
class DeviceResetting {
 public:
  DeviceResetting() noexcept : on_(Recording() && Marking()) {
    if (on_) BeginDeviceReset(CurrentDevice());
  }
  ~DeviceResetting() {
    if (on_) EndDeviceReset();
  }
  DeviceResetting(const DeviceResetting&) = delete;
  DeviceResetting& operator=(const DeviceResetting&) = delete;

 private:
  const bool on_;
};

// In a forked child, where nothing is registered.
void ForgetMarks() noexcept;

}  // namespace lockstep::recorder
