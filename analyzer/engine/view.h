// The stages of one analysis, for callers that show more than the verdict.
#pragma once

#include <functional>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/engine/facts/clock.h"
#include "analyzer/engine/facts/mismatch.h"
#include "analyzer/engine/facts/model.h"
#include "analyzer/engine/facts/timing.h"
#include "analyzer/engine/facts/waits.h"
#include "analyzer/engine/slow/slow.h"

namespace lockstep {

// Valid only while `look` runs. model.bundle does not contain ranks whose recording was stopped, so its rank indexes
// differ from the given bundle's.
struct AnalysisView {
  const Model& model;
  const std::vector<Mismatch>& mismatches;
  const WaitGraph* graph = nullptr;  // null if nothing is stuck
  const Timing& timing;
  const Clocks& clocks;
  const Slowness& slowness;
  const Verdict& verdict;  // the verdict that will be returned
};

// Like Analyze, but calls `look` once before it returns.
Verdict AnalyzeAndLook(const Bundle& bundle, const AnalyzeOptions& options,
                       const std::function<void(const AnalysisView&)>& look);

}  // namespace lockstep
