#include "analyzer/util/proc_stat.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/time_units.h"

namespace lockstep {

int64_t ProcStat::StartedRealNs() const {
  const int64_t tick = kSecond / std::max(1L, sysconf(_SC_CLK_TCK));
  return RealtimeNs() - ClockNs(CLOCK_BOOTTIME) + static_cast<int64_t>(start_ticks) * tick;
}

std::optional<ProcStat> ParseProcStat(const std::string& text) {
  // The name may contain anything, including parentheses, so the fields start after the last one.
  const size_t close = text.rfind(')');
  if (close == std::string::npos || close + 2 >= text.size()) return std::nullopt;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(text).substr(close + 2), absl::ByAnyChar(" \n"), absl::SkipEmpty());
  // fields[0] is field 3 of proc(5).
  if (fields.size() < 20) return std::nullopt;
  const auto number = [&](size_t field) {
    int64_t value = 0;
    return field - 3 < fields.size() && absl::SimpleAtoi(fields[field - 3], &value) ? value : int64_t{0};
  };
  ProcStat stat;
  stat.state = fields[0][0];
  stat.parent = static_cast<pid_t>(number(4));
  stat.cpu_ticks = static_cast<uint64_t>(number(14) + number(15) + number(16) + number(17));
  stat.major_faults = static_cast<uint64_t>(number(12) + number(13));
  stat.start_ticks = static_cast<uint64_t>(number(22));
  if (stat.state == 'Z' && fields.size() >= 50) stat.wait_status = static_cast<int>(number(52));
  return stat;
}

std::optional<ProcStat> ReadProcStat(const std::string& folder) {
  std::optional<ProcStat> stat = ParseProcStat(ReadSmallFile(folder + "/stat", 4096));
  // The kernel shows 0 to a process that may not trace this one. Such a process cannot read the link either.
  if (stat && stat->wait_status == 0 && LinkTarget(folder + "/ns/pid").empty()) stat->wait_status = -1;
  return stat;
}

std::optional<ProcStat> ReadProcStat(pid_t pid) { return ReadProcStat(absl::StrCat("/proc/", pid)); }

std::string ProcField(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.size() > name.size() && line.substr(0, name.size()) == name && line[name.size()] == ':')
      return std::string(absl::StripAsciiWhitespace(std::string(line.substr(name.size() + 1))));
    text.remove_prefix(line.size() == text.size() ? line.size() : line.size() + 1);
  }
  return "";
}

std::vector<int64_t> ProcNumbers(std::string_view text, std::string_view name) {
  std::vector<int64_t> numbers;
  const std::string field = ProcField(text, name);
  for (const absl::string_view word : absl::StrSplit(field, absl::ByAnyChar(" \t"), absl::SkipEmpty())) {
    int64_t number = 0;
    if (absl::SimpleAtoi(word, &number)) numbers.push_back(number);
  }
  return numbers;
}

pid_t InnerPid(const std::string& folder) {
  const std::vector<int64_t> numbers = ProcNumbers(ReadSmallFile(folder + "/status", 16384), "NSpid");
  return numbers.empty() ? 0 : static_cast<pid_t>(numbers.back());
}

const std::string& BootId() {
  static const std::string* id =
      new std::string(absl::StripAsciiWhitespace(ReadSmallFile("/proc/sys/kernel/random/boot_id", 64)));
  return *id;
}

}  // namespace lockstep
