// Waits for one-sided signals that were never sent.
#ifndef LOCKSTEP_ANALYZER_ENGINE_RULES_ONE_SIDED_H_
#define LOCKSTEP_ANALYZER_ENGINE_RULES_ONE_SIDED_H_

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/model.h"
#include "analyzer/engine/rules/causes.h"

namespace lockstep {

// Adds who owes a signal that another rank has waited for longer than `late_after_ns`, and takes out of `causes` that
// the waiting rank's GPU stands still. Who waits for a signal itself is no cause while another is.
void AddOneSided(const Model& model, int64_t late_after_ns, std::vector<Cause>* causes);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_RULES_ONE_SIDED_H_
