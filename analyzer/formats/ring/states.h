// The states of a rank's operations, from the GPU marks.
#ifndef LOCKSTEP_ANALYZER_FORMATS_RING_STATES_H_
#define LOCKSTEP_ANALYZER_FORMATS_RING_STATES_H_

#include "analyzer/model/bundle.h"

namespace lockstep {

// The state of an operation with CPU stage `stage`, on `stream` (null: none or unknown). The stream shows every
// operation's start, so that "not started" is a fact.
bool StartsAreMarked(const ring::StreamSnapshot& stream, ring::GpuMarks marks);

OpState StateOf(ring::OpStage stage, uint64_t ticket, const ring::StreamSnapshot* stream, ring::GpuMarks marks);

// Sets Membership::started and completed of every communicator from the states of its collectives: the highest number
// such that it and all before it are known to have got there. Stays kUnknown if the marks do not show it.
void DeriveProgress(Rank* rank);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_RING_STATES_H_
