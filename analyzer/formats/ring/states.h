// Determines the states of a rank's operations from its GPU progress markers.
#pragma once

#include "analyzer/model/bundle.h"

namespace lockstep {

// Returns whether the start of every operation is marked on the stream, so that "not started" is certain.
bool StartsAreMarked(const ring::StreamSnapshot& stream, ring::GpuMarks marks);

// Returns the state of an operation with CPU stage `stage`, on `stream` (null if none or unknown).
OpState StateOf(ring::OpStage stage, uint64_t ticket, const ring::StreamSnapshot* stream, ring::GpuMarks marks);

// Sets Membership::started and completed of every communicator from the states of its collectives. Each is the highest
// number up to which all collectives are known to have started or completed. Both stay kUnknown if the markers do not
// show it.
void DeriveProgress(Rank* rank);

}  // namespace lockstep
