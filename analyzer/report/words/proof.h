// English for what a replay found.
#pragma once

#include <string>

#include "proto/verdict.pb.h"

namespace lockstep {

// One line: "proved by replay: the recorded calls complete if rank 1 continues; no change at any of the 3 other ranks
// tried helps".
std::string ProofText(const Proof& proof);

}  // namespace lockstep
