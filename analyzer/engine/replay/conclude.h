// Produces the verdict that users see in text, files and windows.
#pragma once

#include "analyzer/model/analyze_options.h"
#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep::replay {

// Returns the verdict with its circumstances. The first finding has its proof if the job has at most kMostUnasked
// ranks.
Verdict Conclude(const Bundle& bundle, const AnalyzeOptions& options = {});

}  // namespace lockstep::replay
