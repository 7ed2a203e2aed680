// The stages of one analysis, for whoever shows more of it than the verdict.
#ifndef LOCKSTEP_ANALYZER_ENGINE_VIEW_H_
#define LOCKSTEP_ANALYZER_ENGINE_VIEW_H_

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

// All of it is gone when `look` returns. model.bundle lacks the ranks whose recording was stopped: places among its
// ranks are not those of the bundle that was given.
struct AnalysisView {
  const Model& model;
  const std::vector<Mismatch>& mismatches;
  const WaitGraph* graph = nullptr;  // null: nothing stands still
  const Timing& timing;
  const Clocks& clocks;
  const Slowness& slowness;
  const Verdict& verdict;  // what is about to be returned
};

// As Analyze; `look` is called once before it returns.
Verdict AnalyzeAndLook(const Bundle& bundle, const AnalyzeOptions& options,
                       const std::function<void(const AnalysisView&)>& look);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_VIEW_H_
