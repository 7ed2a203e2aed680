#include "collector/tools/archive/job_days.h"

#include <time.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/time_text.h"
#include "collector/tools/archive/rows.h"

namespace lockstep::archive {
namespace {

constexpr int64_t kDay = 86'400;
constexpr int64_t kLongest = 400 * kDay;
constexpr size_t kMostJobDays = 1'000'000;

// Returns false if the text is not a time.
bool Time(const std::string& text, int64_t* seconds) {
  if (!absl::SimpleAtoi(text, seconds)) {
    tm parts{};
    parts.tm_isdst = -1;
    const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
    if (end == nullptr || *end != '\0') return false;
    *seconds = mktime(&parts);
  }
  return *seconds >= kEarliestSecond && *seconds <= kLatestSecond;
}

std::string DayText(int64_t seconds) { return UtcText(seconds * 1'000'000'000, "%Y-%m-%d"); }

}  // namespace

absl::StatusOr<std::vector<JobDay>> ReadJobDays(const std::string& text, int64_t now_s) {
  std::vector<JobDay> days;
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (line.empty()) continue;
    const std::vector<std::string> fields = absl::StrSplit(line, '|');
    const auto wrong = [&](const char* what) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ": ", what, ": ", Printable(std::string(line), 100)));
    };
    if (fields.size() < 3 || fields[0].empty()) return wrong("expected JOB|START|END[|RANKS]");
    if (fields[1] == "Unknown" || fields[1] == "None") continue;
    JobDay day;
    day.job = CleanUtf8(fields[0], 256);
    int64_t begin = 0, end = now_s;
    if (!Time(fields[1], &begin)) return wrong("no start");
    if (fields[2] != "Unknown" && !Time(fields[2], &end)) return wrong("no end");
    if (fields.size() > 3 && !fields[3].empty() && !absl::SimpleAtoi(fields[3], &day.ranks))
      return wrong("the number of ranks is invalid");
    if (end < begin || end - begin > kLongest) return wrong("it ends before it starts, or runs for more than 400 days");
    for (int64_t at = begin; at < end;) {
      const int64_t next = std::min(end, (at / kDay + 1) * kDay);
      if (days.size() == kMostJobDays)
        return absl::ResourceExhaustedError(
            absl::StrCat("more than ", kMostJobDays, " job-days: give fewer lines at a time"));
      day.day = DayText(at);
      day.seconds = static_cast<uint64_t>(next - at);
      days.push_back(day);
      at = next;
    }
  }
  return days;
}

}  // namespace lockstep::archive
