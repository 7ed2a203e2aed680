// English for what a replay found.
#pragma once

#include <string>

#include "proto/verdict.pb.h"

namespace lockstep {

// One line: "proved by replay: the recorded calls would complete if rank 1 made its next calls; a change at any of 3
// others tried would not help".
std::string ProofText(const Proof& proof);

}  // namespace lockstep
