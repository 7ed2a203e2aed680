// `lockstep run`: starts a job under the recorder and stays until its end.
#ifndef LOCKSTEP_COLLECTOR_RUN_RUN_H_
#define LOCKSTEP_COLLECTOR_RUN_RUN_H_

#include "collector/run/options.h"

namespace lockstep {

// Returns the exit status (docs/run.md), or does not return: if the command died of a signal, this process dies of the
// same. Call it once, from the main thread, before any other thread exists.
int RunJob(const RunOptions& options);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_RUN_RUN_H_
