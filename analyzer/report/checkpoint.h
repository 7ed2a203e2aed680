// Ranks that are in a checkpoint, in words.
#pragma once

#include <string>
#include <vector>

#include "proto/verdict.pb.h"

namespace lockstep {

// A line for each mount: how many ranks, since when, and which of them does the least I/O.
std::vector<std::string> CheckpointLines(const Verdict& verdict);

}  // namespace lockstep
