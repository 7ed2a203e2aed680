// English for what a replay found.
#pragma once

#include <string>

#include "proto/verdict.pb.h"

namespace lockstep {

// One line: "proved by replay: the recorded calls complete with the next calls of rank 1; changes at 3 other ranks do
// not help".
std::string ProofText(const Proof& proof);

}  // namespace lockstep
