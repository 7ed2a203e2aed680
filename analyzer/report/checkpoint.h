// Report lines about the ranks that are in a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "proto/verdict.pb.h"

namespace lockstep {

// One line for each mount: how many ranks, since when, and which rank does the least I/O.
std::vector<std::string> CheckpointLines(const Verdict& verdict);

}  // namespace lockstep
