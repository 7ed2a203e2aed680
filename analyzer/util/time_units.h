// Nanoseconds in a unit of time: every time in this project is an int64_t of nanoseconds.
#ifndef LOCKSTEP_ANALYZER_UTIL_TIME_UNITS_H_
#define LOCKSTEP_ANALYZER_UTIL_TIME_UNITS_H_

#include <cstdint>

namespace lockstep {

inline constexpr int64_t kUs = 1000;
inline constexpr int64_t kMs = 1000 * kUs;
inline constexpr int64_t kSecond = 1000 * kMs;
inline constexpr int64_t kMinute = 60 * kSecond;

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_UTIL_TIME_UNITS_H_
