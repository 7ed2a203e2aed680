// Hardware errors in the kernel's log: GPUs, their switches, PCIe, memory, network adapters, disks; and processes that
// the kernel killed.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "proto/process.pb.h"

namespace lockstep {

// Parses a record of /dev/kmsg: "4,1234,98765432,-;NVRM: Xid ...". Returns nullopt if it is irrelevant, or not a kernel
// message. Sets `age_ns` from the record's time; `boot_ns` is the current time since boot.
std::optional<HardwareEvent> ParseKmsgRecord(absl::string_view record, int64_t boot_ns);
// Parses a line of a syslog file in either format: "Nov 21 20:47:07 host kernel: [..] text",
// "2026-11-21T20:47:07.1+00:00 host kernel: text". `now_ns` provides the year for lines without one.
std::optional<HardwareEvent> ParseSyslogLine(absl::string_view line, int64_t now_ns);

// Adds this host's log of the last `window_ns`, or the reason why it cannot be read. The source is /dev/kmsg. If that
// is unreadable, the source is the end of the first readable log file. Never waits. Other paths are for tests. A null
// entry in `files` is skipped; `kmsg` must not be null.
struct HardwareLogPaths {
  const char* kmsg = "/dev/kmsg";
  const char* files[3] = {"/var/log/kern.log", "/var/log/messages", "/var/log/syslog"};
};
void ReadHardwareLog(int64_t window_ns, const HardwareLogPaths& paths, ProcessEvidence* evidence);
// Sets HardwareEvent::gpu where a GPU in *evidence has the event's PCI address.
void NameGpus(ProcessEvidence* evidence);

}  // namespace lockstep
