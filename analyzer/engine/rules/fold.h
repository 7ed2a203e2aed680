// Joins causes that are one, and drops those that another one explains.
#pragma once

#include <vector>

#include "analyzer/engine/facts/cause.h"

namespace lockstep {

constexpr Grade kProven = GRADE_GOOD;
constexpr Grade kAnyone = GRADE_OPEN;  // below it, a set contains every rank that nothing clears

// Once calls are known to disagree, a rank that waits for a GPU without recorded progress is most likely a victim.
void DropDoubtful(std::vector<Cause>* causes);

// If a process's stack shows that it waits for another process outside NCCL, it is a victim. The cause is a named rank
// that does not wait in this way.
void DropWaitersOutside(std::vector<Cause>* causes);

// Hosts that wait for files at the same time have one cause, whether or not other ranks already wait for each of them.
void JoinStorage(std::vector<Cause>* causes);

// A GPU that reported a CUDA error explains why its own process hangs: one finding, about the GPU.
void FoldHostsOfFailedGpus(std::vector<Cause>* causes);

}  // namespace lockstep
