// The analysis: a pure function from what was recorded to the verdict, the same in the command line, the collector and
// the viewer. No I/O, no clock, no global state; safe to call from several threads on different bundles.
#ifndef LOCKSTEP_ANALYZER_ENGINE_H_
#define LOCKSTEP_ANALYZER_ENGINE_H_

#include "analyzer/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

struct AnalyzeOptions {
  // An operation in flight for less than this is no sign of a stall, unless Bundle::known_stalled. Nanoseconds.
  int64_t late_after_ns = 5'000'000'000;
};

// The result does not depend on the order of ranks, files or records in the bundle.
Verdict Analyze(const Bundle& bundle, const AnalyzeOptions& options = {});

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_H_
