// Separates runs of unnamed jobs by their communicators, processes and times.
#pragma once

#include <vector>

#include "analyzer/formats/ring/loader.h"

namespace lockstep {

// If rings of unnamed jobs belong to several runs, names each run after its start time. Processes that share a
// communicator belong to one run. Otherwise, processes with the same rank number, with different world sizes, or with
// start times more than 30 s apart belong to different runs. So do running processes without rank numbers that have
// different parents.
void NameRuns(std::vector<RingInput>* rings);

}  // namespace lockstep
