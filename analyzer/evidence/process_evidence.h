// Limits for process evidence in dumps, and texts for its frames and errors.
#pragma once

#include <string>
#include <vector>

#include "proto/process.pb.h"

namespace lockstep {

// Cuts data from a file or a network to reasonable sizes: 2,048 threads of 512 frames, 64 GPUs, the newest 256 lines of
// the kernel's log, texts of 1,024 bytes. An invalid index becomes 0.
void BoundEvidence(ProcessEvidence* evidence);

// Returns "forward (model.py:12)", "futex_wait (futex-internal.h:146)", "[kernel] futex_wait_queue", "libfoo.so at
// 0x1a2b". The text is equal on all ranks with the same files, so that stacks of many ranks merge.
std::string FrameText(const StackFrame& frame, const ProcessEvidence& evidence);
// Returns the frames of a thread, innermost first. With `python_only`, only its Python frames.
std::vector<std::string> StackTexts(const ThreadStack& thread, const ProcessEvidence& evidence,
                                    bool python_only = false);

// Returns the kind of a line of the kernel's log: "Xid 79", "PCIe error", "machine check", ...
std::string HardwareName(const HardwareEvent& event);

// Returns GPU errors on the process's host, as the driver reports them, one per line.
std::vector<std::string> GpuTrouble(const ProcessEvidence& evidence);
// Returns GpuTrouble, then the kernel log's hardware errors, newest first, without crashes of programs. One line counts
// those beyond `limit`.
std::vector<std::string> HardwareTrouble(const ProcessEvidence& evidence, size_t limit);
// Returns what was examined and what could not be: "no errors in the last hour of the kernel log; GPUs not read: ...".
std::string HardwareSeen(const ProcessEvidence& evidence);
// Returns signs of too little memory: the cgroup near its limit, kills in the cgroup, swapped memory. Empty if there
// are none.
std::string MemoryTrouble(const ProcessEvidence& evidence);

}  // namespace lockstep
