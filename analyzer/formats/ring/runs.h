// Separates runs of jobs without a name, by their communicators, processes and times.
#pragma once

#include <vector>

#include "analyzer/formats/ring/loader.h"

namespace lockstep {

// If rings of jobs without a name belong to several runs, names each run by its start time. Processes that share a
// communicator belong to one run. They belong to different runs if both claim one rank, or if their launchers gave them
// different world sizes. The same holds if they are alive with different parents, or began half a minute apart.
void NameRuns(std::vector<RingInput>* rings);

}  // namespace lockstep
