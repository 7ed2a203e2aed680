// English for evidence.
#pragma once

#include <string>

#include "proto/verdict.pb.h"

namespace lockstep {

// One sentence, made from the fields. A FACT keeps its own text. Names from the job are not escaped.
std::string EvidenceText(const Evidence& evidence);

// The text of a NETWORK_STEP: "waits on the network for rank 3 for 31.0 s (channel 2, step 14 of 64, RecvWait)".
std::string NetworkStepText(const Evidence& evidence);

}  // namespace lockstep
