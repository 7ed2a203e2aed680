// The analysis: a pure function from recorded data to the verdict, the same in the command line, the collector and
// the viewer. No I/O, no clock, no global state; safe to call from several threads on different bundles.
#pragma once

#include "analyzer/model/analyze_options.h"
#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// The result does not depend on the order of ranks, files or records in the bundle.
Verdict Analyze(const Bundle& bundle, const AnalyzeOptions& options = {});

}  // namespace lockstep
