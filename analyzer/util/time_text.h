// Durations and points in time as text.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

enum class DurationDigits {
  kFew,           // "31 s", "4.2 s", "0.8 s", "12 ms", "3.4 us"
  kMore,          // three digits: "31.4 s", "4.21 s", "820 ms", "12.1 ms"; for positions on a time axis
  kMilliseconds,  // only ms and s: "2.5 ms", "12 ms", "130.4 s"
};

// "12 ms", "31 s", "4 min 10 s", "2 h 5 min". Minutes from 120 s, hours from 120 min. Accepts any `ns`.
std::string DurationText(int64_t ns, DurationDigits digits = DurationDigits::kFew);

// "31 s", "4 min": a single number. Minutes from 120 s.
std::string WholeDurationText(int64_t ns);

// Returns a wall-clock time in UTC, formatted by strftime; "" if the calendar has no such time.
std::string UtcText(int64_t real_ns, const char* format);
// "2026-01-31T23:59:59.123Z".
std::string IsoTimeText(int64_t real_ns);

}  // namespace lockstep
