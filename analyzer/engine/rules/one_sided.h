// Finds waits for one-sided signals that were never sent.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/model.h"
#include "analyzer/engine/rules/causes.h"

namespace lockstep {

// Adds the ranks that owe a signal for which another rank has waited longer than `late_after_ns`, and removes the
// waiting rank's stuck GPU from `causes`. A rank that itself waits for a signal is no cause if another rank is.
void AddOneSided(const Model& model, int64_t late_after_ns, std::vector<Cause>* causes);

}  // namespace lockstep
