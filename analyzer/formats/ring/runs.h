// Separates runs without a name by their communicators, their processes and times.
#ifndef LOCKSTEP_ANALYZER_FORMATS_RING_RUNS_H_
#define LOCKSTEP_ANALYZER_FORMATS_RING_RUNS_H_

#include <vector>

#include "analyzer/formats/ring/loader.h"

namespace lockstep {

// If rings of jobs without a name belong to several runs, names each run by its start time. Processes that share a
// communicator are of one run. They are of different runs if both claim one rank, if their launchers gave them
// different world sizes, if living ones have different parents, or if they began half a minute apart.
void NameRuns(std::vector<RingInput>* rings);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_RING_RUNS_H_
