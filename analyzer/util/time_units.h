// Units of time in nanoseconds. Times are int64_t numbers of nanoseconds unless stated otherwise.
#pragma once

#include <cstdint>

namespace lockstep {

inline constexpr int64_t kUs = 1000;
inline constexpr int64_t kMs = 1000 * kUs;
inline constexpr int64_t kSecond = 1000 * kMs;
inline constexpr int64_t kMinute = 60 * kSecond;

}  // namespace lockstep
