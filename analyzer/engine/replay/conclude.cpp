#include "analyzer/engine/replay/conclude.h"

#include "analyzer/engine/replay/judge.h"
#include "analyzer/report/circumstances.h"

namespace lockstep::replay {

Verdict Conclude(const Bundle& bundle, const AnalyzeOptions& options) {
  return WithCircumstances(
      bundle.ranks.size() <= kMostUnasked ? AnalyzeAndProve(bundle, options) : Analyze(bundle, options), bundle);
}

}  // namespace lockstep::replay
