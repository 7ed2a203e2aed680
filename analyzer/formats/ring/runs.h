// Runs that share one name because none was given: they are told apart by their communicators, their processes and
// times.
#ifndef LOCKSTEP_ANALYZER_FORMATS_RING_RUNS_H_
#define LOCKSTEP_ANALYZER_FORMATS_RING_RUNS_H_

#include <vector>

#include "analyzer/formats/ring/loader.h"

namespace lockstep {

// Where rings of jobs without a name are of several runs, gives each run a name of its own: when it began. Processes
// that share a communicator are of one run. Others are of another run where both claim one rank, where their launchers
// gave them other world sizes, where living ones have other parents, or where they began half a minute apart.
void NameRuns(std::vector<RingInput>* rings);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_RING_RUNS_H_
