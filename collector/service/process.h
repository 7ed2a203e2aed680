// The process of `lockstep collector`: sockets, threads, signals and clocks around CollectorCore, or around a relay.
#pragma once

#include "collector/service/options.h"

namespace lockstep {

// Returns the exit status: 0 if SIGTERM or SIGINT ended it, 1 if it could not start.
int RunCollector(const CollectorOptions& options);

}  // namespace lockstep
