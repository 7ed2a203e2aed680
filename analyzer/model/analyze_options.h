// Options of the analysis.
#pragma once

#include <cstdint>

namespace lockstep {

struct AnalyzeOptions {
  // Ignore operations that have been in flight for less than this, unless Bundle::known_stalled is set.
  int64_t late_after_ns = 5'000'000'000;
};

}  // namespace lockstep
