// Units of time in nanoseconds. Every time in this project is an int64_t in nanoseconds.
#pragma once

#include <cstdint>

namespace lockstep {

inline constexpr int64_t kUs = 1000;
inline constexpr int64_t kMs = 1000 * kUs;
inline constexpr int64_t kSecond = 1000 * kMs;
inline constexpr int64_t kMinute = 60 * kSecond;

}  // namespace lockstep
