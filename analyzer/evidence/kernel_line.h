// Lines of the kernel's log about hardware errors (GPUs, their switches, PCIe, memory, network adapters, disks) and
// about processes that the kernel killed.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/process.pb.h"

namespace lockstep {

// Parses one kernel message, without its time. Returns nullopt if it reports no such event. The text is untrusted (a
// process can choose its name, root can write lines); the result is printable.
std::optional<HardwareEvent> ParseHardwareLine(absl::string_view text);

// Removes blanks and the time that printk or dmesg puts before a message: "[12345.678901] ", "[Fri Nov 20 10:11:12
// 2026] ".
absl::string_view WithoutKernelTime(absl::string_view line);

struct KernelLine {
  HardwareEvent event;
  std::string host;  // empty if the line does not contain it
};
// Parses a line of dmesg, journalctl or a syslog file, among lines of any program.
std::optional<KernelLine> ParseKernelLine(absl::string_view line);

}  // namespace lockstep
