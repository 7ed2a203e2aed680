// Limits for process evidence in dumps, and texts for its frames and errors.
#pragma once

#include <string>
#include <vector>

#include "proto/process.pb.h"

namespace lockstep {

// Cuts data from a file or a network to reasonable sizes: 2,048 threads of 512 frames, 64 GPUs, 256 lines of the
// kernel's log, texts of 1,024 characters. An invalid index becomes 0.
void BoundEvidence(ProcessEvidence* evidence);

// "forward (model.py:12)", "futex_wait (futex-internal.h:146)", "[kernel] futex_wait_queue", "libfoo.so at 0x1a2b":
// equal on all ranks with the same files, so that stacks of many ranks merge.
std::string FrameText(const StackFrame& frame, const ProcessEvidence& evidence);
// Frames of a thread, innermost first. With `python_only`, only its Python frames.
std::vector<std::string> StackTexts(const ThreadStack& thread, const ProcessEvidence& evidence,
                                    bool python_only = false);

// "Xid 79", "PCIe", "machine check", ...: the kind of a line of the kernel's log.
std::string HardwareName(const HardwareEvent& event);

// GPU errors on the process's host, as the driver reports them, one per line.
std::vector<std::string> GpuTrouble(const ProcessEvidence& evidence);
// Hardware errors of the process's host, one per line, newest first, at most `limit`.
std::vector<std::string> HardwareTrouble(const ProcessEvidence& evidence, size_t limit);
// Returns what was examined and what could not be: "no errors in the kernel log of the last 60 minutes; GPUs not read:
// ...".
std::string HardwareSeen(const ProcessEvidence& evidence);
// Returns how close the process is to being killed for its memory use; empty if it is not close.
std::string MemoryTrouble(const ProcessEvidence& evidence);

}  // namespace lockstep
