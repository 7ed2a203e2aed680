// The GPU's progress on each stream. Either the GPU itself writes a ticket into the stream's line of the ring file when
// the stream gets there (cuStreamWriteValue64), or events are recorded there and polled by our thread (gpu_events.h).
// The driver is found among the loaded objects at run time, never loaded by us. The program sees none of the driver's
// errors, and none counts as a completion.
#ifndef LOCKSTEP_RECORDER_CORE_GPU_MARKS_H_
#define LOCKSTEP_RECORDER_CORE_GPU_MARKS_H_

#include <stdint.h>

#include "recorder/core/process.h"

namespace lockstep::recorder {

inline constexpr uint8_t kWayMarks = 1, kWayEvents = 2;  // StreamLocal::ways

// Finds a way to record the stream's progress, at its first use. Leaves `ways` 0 if there is none, and `tries` above 0
// if there may be one later.
void EnableMarks(StreamLocal* stream) noexcept;

// True if the table still holds the same stream under this handle. False: the stream was destroyed and the handle
// reused unseen. Do not call it for a capturing stream: CUDA refuses to return the number of one in every mode, and the
// call invalidates the capture (driver 580.159; undocumented).
bool IsSameStream(const StreamLocal& stream) noexcept;

enum class Capture { kNo, kYes, kUnknown };
// Whether the stream is being captured, and into which graph. Asks the driver; does not disturb a capture.
Capture QueryCapture(const StreamLocal& stream, uint64_t* graph) noexcept;

// The stream's progress can be recorded, or may be later. Check for a capture before marking.
inline bool MayMark(const StreamLocal& stream) noexcept {
  return stream.ways != 0 || stream.tries != 0 || stream.identity != 0;
}

// The stream's progress can be recorded. Not for a stream that captures.
inline bool MarksReady(StreamLocal* stream) noexcept {
  if (LOCKSTEP_UNLIKELY(stream->ways == 0) && stream->tries != 0) EnableMarks(stream);
  return stream->ways != 0;
}

// One use of an uncaptured stream, by one operation or a whole group: TakeTicket before NCCL is entered, StartMark at
// its launch, EndMark after it. Between the first and the last, the thread owns the stream's tickets. 0: it does not
// get them, and the GPU's part of this use stays unknown.
uint64_t TakeTicket(const ThreadState* thread, StreamLocal* stream, bool nonblocking) noexcept;
// `now`: ticks, just before.
void StartMark(StreamLocal* stream, uint64_t ticket, uint64_t now) noexcept;
void EndMark(StreamLocal* stream, uint64_t ticket) noexcept;

// For non-blocking communicators, NCCL's own thread enqueues the work some time after the call returns. No mark may
// come before it. The stream therefore delays its marks until the communicator's state is success; until then the
// progress of these tickets is unknown.
void HoldMarks(CommLocal* comm, StreamLocal* stream) noexcept;  // between TakeTicket and EndMark
// The argument of SettleMarks; taken before NCCL is asked for the state. 0: a call is in progress, so the answer is
// useless.
uint64_t MarksBegun(const CommLocal& comm) noexcept;
// All work of the communicator up to `begun` is on its streams.
void SettleMarks(CommLocal* comm, uint64_t begun) noexcept;
// The same for work before the operations that end now, whose streams' tickets the calling thread owns.
void SettleEarlier(CommLocal* comm) noexcept;
void DropHolds(CommLocal* comm) noexcept;  // it has ended

// A GPU error seen on the stream; other errors are ignored.
void NoteGpuError(StreamLocal* stream, int32_t error) noexcept;

// The device of the calling thread's current context, -1 without one or without a driver.
int32_t CurrentDevice() noexcept;

// Writes driver version, GPU index, UUID and PCI id into the header, once.
void DescribeGpu(int32_t device) noexcept;

// Around a call that destroys a device's contexts, with all their streams and events.
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

// In a forked child: nothing is registered there.
void ForgetMarks() noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_CORE_GPU_MARKS_H_
