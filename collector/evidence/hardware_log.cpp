#include "collector/evidence/hardware_log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/evidence/kernel_line.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/time_units.h"
#include "analyzer/util/unique_fd.h"
#include "collector/host/proc.h"

namespace lockstep {
namespace {

constexpr size_t kMostRecords = 200'000;
constexpr int kMostEvents = 256;
constexpr int64_t kMostTailBytes = 4 << 20;

// Parses "Nov 21 20:47:07" or "2026-11-21T20:47:07.123456+00:00" and removes it from the line; returns 0 for anything
// else.
int64_t TakeTime(absl::string_view* line, int64_t now_ns) {
  tm parts{};
  const std::string text(line->substr(0, 40));
  if (const char* rest = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts)) {
    if (*rest == '.') {
      for (++rest; *rest >= '0' && *rest <= '9';) ++rest;
    }
    int offset = 0;
    if ((*rest == '+' || *rest == '-') && strlen(rest) >= 6) {
      const auto two = [](const char* digits) { return (digits[0] - '0') * 10 + digits[1] - '0'; };
      offset = (two(rest + 1) * 60 + two(rest + 4)) * 60;
      if (*rest == '-') offset = -offset;
      rest += 6;
    } else if (*rest == 'Z') {
      ++rest;
    }
    line->remove_prefix(static_cast<size_t>(rest - text.c_str()));
    const int64_t seconds = timegm(&parts) - offset;
    return seconds > 0 && seconds < INT64_MAX / kSecond ? seconds * kSecond : 0;  // a line may claim any year
  }
  const time_t now = static_cast<time_t>(now_ns / kSecond);
  tm today{};
  localtime_r(&now, &today);
  parts = {};
  parts.tm_year = today.tm_year;
  parts.tm_isdst = -1;
  const char* rest = strptime(text.c_str(), "%b %d %H:%M:%S", &parts);
  if (rest == nullptr) return 0;
  line->remove_prefix(static_cast<size_t>(rest - text.c_str()));
  time_t when = mktime(&parts);
  if (when > now + 86400) {  // last December, read in January
    parts.tm_year -= 1;
    parts.tm_isdst = -1;
    when = mktime(&parts);
  }
  return when * kSecond;
}

void Keep(HardwareEvent event, int64_t now_ns, int64_t window_ns, ProcessEvidence* evidence) {
  if (event.age_ns() < 0) event.set_age_ns(0);
  if (event.age_ns() > window_ns) return;
  event.set_real_ns(now_ns - event.age_ns());
  // A repeated line (there may be thousands of corrected errors) is kept once, with its latest time.
  auto& events = *evidence->mutable_hardware();
  const auto known = std::find_if(events.begin(), events.end(), [&](const HardwareEvent& other) {
    return other.kind() == event.kind() && other.pci() == event.pci() && other.code() == event.code() &&
           other.pid() == event.pid() && other.text() == event.text();
  });
  if (known != events.end()) {
    events.erase(known);
  } else if (events.size() >= kMostEvents) {
    events.erase(events.begin());
  }
  *evidence->add_hardware() = std::move(event);
}

// Returns 0 or errno.
int ReadKmsg(const char* path, int64_t window_ns, ProcessEvidence* evidence) {
  const UniqueFd fd(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (!fd.ok()) return errno;
  const int64_t now = RealtimeNs(), boot = ClockNs(CLOCK_MONOTONIC);
  bool first = true;
  int error = 0;
  for (size_t i = 0; i < kMostRecords; ++i) {
    char record[8192];
    const ssize_t got = read(fd.get(), record, sizeof record);
    if (got < 0 && errno == EPIPE) continue;  // overwritten during the read: continue with the next record
    if (got <= 0) {
      if (got < 0 && errno != EAGAIN && errno != EINTR) error = errno;
      break;
    }
    const absl::string_view text(record, static_cast<size_t>(got));
    if (first) {
      const std::vector<absl::string_view> fields = absl::StrSplit(text.substr(0, text.find(';')), ',');
      int64_t us = 0;
      if (fields.size() >= 3 && absl::SimpleAtoi(fields[2], &us))
        evidence->set_hardware_since_ns(now - boot + us * 1000);
      first = false;
    }
    if (std::optional<HardwareEvent> event = ParseKmsgRecord(text, boot))
      Keep(std::move(*event), now, window_ns, evidence);
  }
  return error;
}

int ReadFile(const char* path, int64_t window_ns, ProcessEvidence* evidence) {
  const UniqueFd fd(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (!fd.ok()) return errno;
  struct stat info {};
  if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return EINVAL;
  }
  const int64_t now = RealtimeNs();
  std::string text(static_cast<size_t>(std::min<int64_t>(info.st_size, kMostTailBytes)), '\0');
  const ssize_t got = pread(fd.get(), text.data(), text.size(), info.st_size - static_cast<int64_t>(text.size()));
  const int error = got < 0 ? errno : 0;
  if (error != 0) return error;
  text.resize(static_cast<size_t>(got));
  bool first = true;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    absl::string_view rest = line;
    if (first) {
      const int64_t since = TakeTime(&rest, now);
      if (since != 0) {
        evidence->set_hardware_since_ns(since);
        first = false;
      }
    }
    if (std::optional<HardwareEvent> event = ParseSyslogLine(line, now))
      Keep(std::move(*event), now, window_ns, evidence);
  }
  return 0;
}

}  // namespace

std::optional<HardwareEvent> ParseKmsgRecord(absl::string_view record, int64_t boot_ns) {
  const size_t semicolon = record.find(';');
  if (semicolon == record.npos) return std::nullopt;
  const std::vector<absl::string_view> fields = absl::StrSplit(record.substr(0, semicolon), ',');
  int64_t priority = 0, us = 0;
  if (fields.size() < 3 || !absl::SimpleAtoi(fields[0], &priority) || !absl::SimpleAtoi(fields[2], &us))
    return std::nullopt;
  if (priority < 0 || priority >> 3 != 0 || us < 0 || us > INT64_MAX / 1000)
    return std::nullopt;  // written by a process
  absl::string_view text = record.substr(semicolon + 1);
  text = text.substr(0, text.find('\n'));  // more properties follow
  std::optional<HardwareEvent> event = ParseHardwareLine(text);
  if (event) event->set_age_ns(boot_ns - us * 1000);
  return event;
}

std::optional<HardwareEvent> ParseSyslogLine(absl::string_view line, int64_t now_ns) {
  line = line.substr(0, 8192);
  const int64_t when = TakeTime(&line, now_ns);
  if (when == 0) return std::nullopt;
  const size_t mark = line.find(" kernel:");
  // "host kernel:": the program's field must be "kernel", wherever else the word appears.
  if (mark == line.npos || mark > 300 || line.substr(1, mark - 1).find(' ') != line.npos) return std::nullopt;
  line = WithoutKernelTime(line.substr(mark + strlen(" kernel:")));
  std::optional<HardwareEvent> event = ParseHardwareLine(line);
  if (event) event->set_age_ns(now_ns - when);
  return event;
}

void ReadHardwareLog(int64_t window_ns, const HardwareLogPaths& paths, ProcessEvidence* evidence) {
  const int error = ReadKmsg(paths.kmsg, window_ns, evidence);
  if (error == 0) return;
  for (const char* file : paths.files) {
    if (file != nullptr && ReadFile(file, window_ns, evidence) == 0) return;
  }
  std::string why = absl::StrCat(paths.kmsg, ": ", strerror(error));
  if (error == EPERM || error == EACCES)
    absl::StrAppend(&why, " (grant CAP_SYSLOG, or sysctl kernel.dmesg_restrict=0)");
  if (error == ENOENT) absl::StrAppend(&why, " (in a container, pass the device: --device /dev/kmsg)");
  evidence->set_hardware_unread(
      absl::StrCat(why, "; ", paths.files[0] == nullptr ? "no log file" : paths.files[0], " could not be read either"));
}

void NameGpus(ProcessEvidence* evidence) {
  for (HardwareEvent& event : *evidence->mutable_hardware()) {
    for (const GpuState& gpu : evidence->gpus()) {
      if (!event.pci().empty() && event.pci() == gpu.pci()) event.set_gpu(gpu.index() + 1);
    }
  }
}

}  // namespace lockstep
