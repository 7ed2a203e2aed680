// An NCCL that is newer than the recorder, or another than it knows.
#ifndef LOCKSTEP_ANALYZER_ENGINE_UNWRAPPED_H_
#define LOCKSTEP_ANALYZER_ENGINE_UNWRAPPED_H_

#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Adds a `blind` line for each such library, saying which of its functions the job may have called unseen.
void SayWhatIsNotWrapped(const Bundle& bundle, Verdict* verdict);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_UNWRAPPED_H_
