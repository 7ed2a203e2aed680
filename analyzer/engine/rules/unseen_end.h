// Handles rings of processes whose end was not observed.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/engine/rules/causes.h"

namespace lockstep {

// Returns whether the rank's process ended at an unknown time, so that the duration of everything in its ring is
// unknown.
inline bool EndUnseen(const Rank& rank) {
  return rank.source == Source::kRing && rank.process.life == Life::kGone && rank.process.ended_mono_ns == 0;
}

// If nothing shows when the data of any rank was taken, the job may have been running: a healthy job that is killed
// leaves the same rings as a hung one, and a copied dump of a running job looks like that of a hung one. So causes
// based on operations in flight become hypotheses that say so. They stay causes if a record shows activity
// `late_after_ns` or more after the operation at issue was entered. The same applies to processes without recorded
// calls that were watched only for a few seconds.
void DoubtUnseenEnd(const Bundle& bundle, int64_t late_after_ns, std::vector<Cause>* causes);

}  // namespace lockstep
