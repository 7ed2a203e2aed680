// Calls that a rank's program does not order. The thread that writes checkpoints, for example, issues its collectives
// between other calls of the training loop on each rank.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

// Returns the strand (see CommView) of each communicator, indexed as Bundle::comms. The calls of one strand count as
// ordered. Two kinds of communicators are in different strands if two ranks issued the same operations of both in
// opposite orders, and the operations completed: then neither waits for the other. Strand 0 has the most calls.
std::vector<uint32_t> FindStrands(const Model& model);

}  // namespace lockstep
