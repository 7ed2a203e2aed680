// What records show about completed operations.
#pragma once

#include <cstdint>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

// Returns whether the rank's record shows which operations completed, so that its other operations are known to be
// unfinished. Some recorders never see a completion and report every operation as scheduled; a log of calls contains no
// completions. `op` is one of the rank's operations, or null.
bool CompletionsAreRecorded(const Rank& rank, const Op* op);

// Returns the only member that completed collective `seq`, by its record or counters, as an index into Bundle::ranks.
// At least two others must have the operation in flight. Returns -1 if there is no such member. A hung GPU keeps one
// member from completing the operation, not all members except one.
int32_t FinishedAlone(const Model& model, uint32_t comm, int64_t seq);

}  // namespace lockstep
