// The states of a rank's operations, from the GPU marks.
#ifndef LOCKSTEP_ANALYZER_FORMATS_RING_STATES_H_
#define LOCKSTEP_ANALYZER_FORMATS_RING_STATES_H_

#include "analyzer/model/bundle.h"

namespace lockstep {

// The state of an operation that the host saw through `stage`, on `stream` (null: none or unknown).
// Every operation's start shows on the stream, so that "not started" means something.
bool StartsAreMarked(const ring::StreamSnapshot& stream, ring::GpuMarks marks);

OpState StateOf(ring::OpStage stage, uint64_t ticket, const ring::StreamSnapshot* stream, ring::GpuMarks marks);

// Sets Membership::started and completed of every communicator from the states of its collectives: the highest number
// such that it and all before it are known to have got there. Left kUnknown where marks do not say.
void DeriveProgress(Rank* rank);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_RING_STATES_H_
