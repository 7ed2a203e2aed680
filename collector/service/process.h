// The process of `lockstep collector`: sockets, threads, signals and clocks around CollectorCore, or around a relay.
#pragma once

#include "collector/service/options.h"

namespace lockstep {

// Returns the exit status: 0 after SIGTERM, SIGINT or SIGHUP, 1 if it could not start. With --finalise or --index, only
// completes or indexes an incident.
int RunCollector(const CollectorOptions& options);

}  // namespace lockstep
