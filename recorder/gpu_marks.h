// GPU marks: the GPU itself writes a ticket into the stream's line of the ring file when the stream gets there, by
// cuStreamWriteValue64. The driver is found among the loaded objects at run time, never loaded by us. Any error of the
// driver ends the marks of that stream and never reaches the host.
#ifndef LOCKSTEP_RECORDER_GPU_MARKS_H_
#define LOCKSTEP_RECORDER_GPU_MARKS_H_

#include <stdint.h>

namespace lockstep::recorder {

struct StreamLocal;

// Makes the stream's mark line visible to its device; at a stream's first use. Leaves device_mark 0 where that fails.
void EnableMarks(StreamLocal* stream, uint32_t index) noexcept;

enum class Capture { kNo, kYes, kUnknown };
// Whether the stream is being captured into a graph, and which. Asks the driver; does not disturb a capture.
Capture QueryCapture(const StreamLocal& stream, uint64_t* graph) noexcept;

void WriteStarted(StreamLocal* stream, uint64_t ticket) noexcept;
void WriteCompleted(StreamLocal* stream, uint64_t ticket) noexcept;

// The device of the calling thread's current context, -1 when there is none or no driver.
int32_t CurrentDevice() noexcept;

// Driver version, GPU index, UUID and PCI id into the header, once.
void DescribeGpu(int32_t device) noexcept;

// In a forked child: nothing is registered there.
void ForgetMarks() noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_GPU_MARKS_H_
