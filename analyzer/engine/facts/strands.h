// Groups calls between which a rank's program sets no order. The thread that writes checkpoints, for example, issues
// its collectives between arbitrary calls of the training loop.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

// Returns the strand (see CommView) of each communicator, indexed as Bundle::comms. The calls of one strand count as
// ordered. Two kinds of communicators are in different strands if two ranks issued and completed the same operations of
// both in opposite orders. Then neither waits for the other. Strand 0 has the most calls.
std::vector<uint32_t> FindStrands(const Model& model);

}  // namespace lockstep
