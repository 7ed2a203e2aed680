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

// Handles data whose capture time is unknown for every rank. The job may have been running: a healthy job that is
// killed leaves the same rings as a hung one, and so does a copied dump. So causes based on operations in flight become
// hypotheses, and say so. They remain causes if a record shows activity at least `late_after_ns` after the operation at
// issue was entered. The same applies to processes without recorded calls that were watched only for a few seconds.
void DoubtUnseenEnd(const Bundle& bundle, int64_t late_after_ns, std::vector<Cause>* causes);

}  // namespace lockstep
