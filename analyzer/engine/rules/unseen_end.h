// Rings of processes that have ended, and nobody saw when.
#ifndef LOCKSTEP_ANALYZER_ENGINE_RULES_UNSEEN_END_H_
#define LOCKSTEP_ANALYZER_ENGINE_RULES_UNSEEN_END_H_

#include <cstdint>
#include <vector>

#include "analyzer/engine/rules/causes.h"

namespace lockstep {

// The rank's process has ended at a time that is not known: how long anything in its ring had lasted by then is not
// known either.
inline bool EndUnseen(const Rank& rank) {
  return rank.source == Source::kRing && rank.process.life == Life::kGone && rank.process.ended_mono_ns == 0;
}

// Where that holds for the whole job, what its ranks were in may have moved until they were ended together: a job that
// was killed while it was well leaves the same rings as one that had stood still. Causes that rest on something being
// in flight become hypotheses that say so, unless a ring shows a sign of life `late_after_ns` or more after the
// operation at issue was entered.
void DoubtUnseenEnd(const Bundle& bundle, int64_t late_after_ns, std::vector<Cause>* causes);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_RULES_UNSEEN_END_H_
