// Options of the analysis.
#ifndef LOCKSTEP_ANALYZER_MODEL_ANALYZE_OPTIONS_H_
#define LOCKSTEP_ANALYZER_MODEL_ANALYZE_OPTIONS_H_

#include <cstdint>

namespace lockstep {

struct AnalyzeOptions {
  // Ignore operations in flight for less than this, unless Bundle::known_stalled. Nanoseconds.
  int64_t late_after_ns = 5'000'000'000;
};

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_MODEL_ANALYZE_OPTIONS_H_
