// English for the chain from the cause to the ranks that wait.
#pragma once

#include "proto/verdict.pb.h"

namespace lockstep {

// Fills the text, the name of the communicators, and the operation if it is not one of NCCL's.
void PutIntoWords(ChainLink* link);

}  // namespace lockstep
