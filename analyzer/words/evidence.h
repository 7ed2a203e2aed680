// English for evidence.
#pragma once

#include <string>

#include "proto/verdict.pb.h"

namespace lockstep {

// One sentence, made from the fields; of a FACT its own text. Names from the job are not escaped.
std::string EvidenceText(const Evidence& evidence);

// "waits on rank 3's network, channel 2, step 14 of 64, RecvWait for 31.0 s", of a NETWORK_STEP.
std::string NetworkStepText(const Evidence& evidence);

}  // namespace lockstep
