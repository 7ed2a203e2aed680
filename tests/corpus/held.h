// Decides whether overwritten rings still contain the evidence for the culprit. The decision comes from the simulator's
// run and the written records, never from an analyzer's answer.
#pragma once

#include <memory>
#include <vector>

#include "tests/corpus/scenario.h"

namespace lockstep::corpus {

// Marks the truth of a program fault "not identifiable" if the short rings keep no record or counter that decides.
// `base` contains the programs before the fault. Other faults stay identifiable: a rank is stuck just after its newest
// records, and its process is observed directly.
void SettleOverwritten(const Request& request, const std::vector<std::shared_ptr<const Program>>& base,
                       Outcome* outcome);

}  // namespace lockstep::corpus
