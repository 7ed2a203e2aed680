#include "analyzer/util/time_text.h"

#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep {
namespace {

std::string MillisecondsText(double ms) {
  if (ms >= 1000) return absl::StrFormat("%.1f s", ms / 1000);
  return ms >= 10 ? absl::StrFormat("%.0f ms", ms) : absl::StrFormat("%.2g ms", ms);
}

// "4.21", "31.4", "820".
std::string ThreeDigits(double value, const char* unit) {
  const bool whole = value == static_cast<double>(static_cast<int64_t>(value));
  return absl::StrFormat("%.*f %s", value >= 100 || whole ? 0 : value >= 10 ? 1 : 2, value, unit);
}

}  // namespace

std::string DurationText(int64_t ns, DurationDigits digits) {
  const double value = static_cast<double>(ns);
  if (digits == DurationDigits::kMilliseconds) return MillisecondsText(value / 1e6);
  if (ns == 0) return "0 s";
  if (ns < 0) return absl::StrCat("-", DurationText(ns == INT64_MIN ? INT64_MAX : -ns, digits));
  if (ns < 1'000) return absl::StrCat(ns, " ns");
  const int64_t seconds = ns / 1'000'000'000 + (ns % 1'000'000'000 >= 500'000'000 ? 1 : 0);
  if (digits == DurationDigits::kMore && seconds < 120) {
    if (ns < 1'000'000) return ThreeDigits(value / 1e3, "us");
    return ns < 1'000'000'000 ? ThreeDigits(value / 1e6, "ms") : ThreeDigits(value / 1e9, "s");
  }
  if (ns < 1'000'000) return absl::StrFormat("%.*f us", ns < 10'000 ? 1 : 0, value / 1e3);
  if (ns < 100'000'000) return absl::StrFormat("%.*f ms", ns < 10'000'000 ? 1 : 0, value / 1e6);
  if (ns < 9'950'000'000) return absl::StrFormat("%.1f s", value / 1e9);
  if (seconds < 120) return absl::StrCat(seconds, " s");
  if (seconds < 7200)
    return absl::StrCat(seconds / 60, " min", seconds % 60 == 0 ? "" : absl::StrCat(" ", seconds % 60, " s"));
  return absl::StrCat(seconds / 3600, " h", seconds / 60 % 60 == 0 ? "" : absl::StrCat(" ", seconds / 60 % 60, " min"));
}

std::string WholeDurationText(int64_t ns) {
  return ns >= 120'000'000'000 ? absl::StrFormat("%.0f min", static_cast<double>(ns) / 60e9)
                               : absl::StrFormat("%.0f s", static_cast<double>(ns) / 1e9);
}

std::string UtcText(int64_t real_ns, const char* format) {
  const time_t seconds = static_cast<time_t>(real_ns / 1'000'000'000);
  tm utc{};
  char text[64];
  return gmtime_r(&seconds, &utc) != nullptr && strftime(text, sizeof text, format, &utc) > 0 ? text : "";
}

std::string IsoTimeText(int64_t real_ns) {
  return absl::StrFormat("%s.%03dZ", UtcText(real_ns, "%Y-%m-%dT%H:%M:%S"),
                         static_cast<int>(real_ns % 1'000'000'000 / 1'000'000));
}

}  // namespace lockstep
