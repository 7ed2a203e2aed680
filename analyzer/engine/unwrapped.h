// Reports an NCCL version that is newer than the recorder or has functions that the recorder does not support.
#pragma once

#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Adds a `blind` line for each such library. It names functions that the job may have called without being recorded.
void SayWhatIsNotWrapped(const Bundle& bundle, Verdict* verdict);

}  // namespace lockstep
