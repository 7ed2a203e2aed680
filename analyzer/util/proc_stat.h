// Facts from /proc about a process and this machine. Every result is a snapshot: the process may end at any time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct ProcStat {
  char state = '?';
  pid_t parent = 0;
  uint64_t cpu_ticks = 0;     // user and system time, including awaited children
  uint64_t major_faults = 0;  // page faults with I/O, including awaited children
  uint64_t start_ticks = 0;
  int wait_status = -1;  // for a zombie that this process may trace, as returned by waitpid; otherwise -1
  bool ended() const { return state == 'Z' || state == 'X'; }
  int64_t StartedRealNs() const;  // by the wall clock
};
// Reads "/proc/PID" or "/proc/PID/task/TID"; nullopt if the process or thread no longer exists.
std::optional<ProcStat> ReadProcStat(const std::string& folder);
std::optional<ProcStat> ReadProcStat(pid_t pid);
// Parses the contents of a stat file. Handles names with spaces and parentheses. A zombie's wait_status is also 0 if
// this process may not trace it.
std::optional<ProcStat> ParseProcStat(const std::string& text);

// Returns the value in a line "NAME:\tVALUE" of /proc/PID/status or /proc/meminfo, without surrounding blanks; "" if
// missing.
std::string ProcField(std::string_view text, std::string_view name);
// Returns the numbers in such a line: "NSpid:\t4711\t12", "VmRSS:\t 1234 kB".
std::vector<int64_t> ProcNumbers(std::string_view text, std::string_view name);

// Returns the PID or TID in the innermost namespace (the last entry of NSpid); 0 if unknown.
pid_t InnerPid(const std::string& folder);

// The id of this machine's current boot, 36 characters; "" if unreadable.
const std::string& BootId();

}  // namespace lockstep
