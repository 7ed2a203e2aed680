// English for the chain from the cause to the ranks that wait.
#pragma once

#include "proto/verdict.pb.h"

namespace lockstep {

// Fills the text, the communicators' names, and the operation if it is not an NCCL operation.
void PutIntoWords(ChainLink* link);

}  // namespace lockstep
