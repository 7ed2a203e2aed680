// Options of the analysis.
#pragma once

#include <cstdint>

namespace lockstep {

struct AnalyzeOptions {
  // Ignore operations in flight for fewer nanoseconds than this, unless Bundle::known_stalled.
  int64_t late_after_ns = 5'000'000'000;
};

}  // namespace lockstep
