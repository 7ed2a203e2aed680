#include "collector/evidence/memory_state.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "collector/host/memory_cgroup.h"
#include "collector/host/proc.h"

namespace lockstep {
namespace {

int64_t Number(absl::string_view text) {
  int64_t value = 0;
  return absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &value) && value >= 0 ? value : -1;
}

// Converts "VmRSS:\t  1234 kB" to bytes; -1 if the line is missing.
int64_t Kilobytes(const std::string& text, const char* name) {
  const std::vector<int64_t> numbers = ProcNumbers(text, name);
  return numbers.empty() || numbers[0] < 0 || numbers[0] > INT64_MAX / 1024 ? -1 : numbers[0] * 1024;
}

// Returns the number in the line of that name, such as "oom_kill 3".
int64_t Counter(const std::string& text, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, absl::StrCat(name, " "))) return Number(line.substr(name.size() + 1));
  }
  return -1;
}

}  // namespace

MemoryState ReadMemoryState(pid_t pid) {
  const std::string proc = absl::StrCat("/proc/", pid, "/");
  MemoryState state;
  const std::string status = ReadSmallFile(proc + "status");
  state.set_resident_bytes(Kilobytes(status, "VmRSS"));
  state.set_swapped_bytes(Kilobytes(status, "VmSwap"));
  state.set_locked_bytes(Kilobytes(status, "VmLck"));
  state.set_oom_score(
      static_cast<int32_t>(std::min<int64_t>(Number(ReadSmallFile(proc + "oom_score", 32)), INT32_MAX)));
  int32_t adjusted = 0;
  if (absl::SimpleAtoi(absl::StripAsciiWhitespace(ReadSmallFile(proc + "oom_score_adj", 32)), &adjusted))
    state.set_oom_score_adj(adjusted);
  state.set_host_available_bytes(Kilobytes(ReadSmallFile("/proc/meminfo"), "MemAvailable"));
  const MemoryCgroup cgroup = FindMemoryCgroup(absl::StrCat("/proc/", pid));
  state.set_cgroup(cgroup.path.substr(0, 1024));
  state.set_cgroup_bytes(cgroup.used);
  state.set_cgroup_limit_bytes(cgroup.limit);
  state.set_cgroup_oom_kills(Counter(ReadSmallFile(cgroup.events, 4096), "oom_kill"));
  return state;
}

}  // namespace lockstep
