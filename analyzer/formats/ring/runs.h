// Separates runs of unnamed jobs by their communicators, processes and times.
#pragma once

#include <vector>

#include "analyzer/formats/ring/loader.h"

namespace lockstep {

// If rings of unnamed jobs belong to several runs, names each run after its start time. Processes that share a
// communicator belong to one run. Processes belong to different runs if both claim one rank, or if their launchers set
// different world sizes. They also do if they are alive with different parents, or if they began half a minute apart.
void NameRuns(std::vector<RingInput>* rings);

}  // namespace lockstep
