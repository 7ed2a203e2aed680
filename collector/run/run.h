// `lockstep run`: starts a job under the recorder and stays until it ends.
#pragma once

#include "collector/run/options.h"

namespace lockstep {

// Returns the exit status (docs/deploying.md). Without -n, if a signal killed the command, this does not return but
// kills the process with the same signal. Call it once, from the main thread, before any other thread exists.
int RunJob(const RunOptions& options);

}  // namespace lockstep
