// The process of `lockstep collector`: sockets, threads, signals and clocks around CollectorCore, or around a relay.
#pragma once

#include "collector/service/options.h"

namespace lockstep {

// Returns the exit status: 0 after SIGTERM, SIGINT or SIGHUP, 1 if it could not start. With the hidden options
// --finalise and --index, only completes or indexes an incident's folder; then 1 means that this failed.
int RunCollector(const CollectorOptions& options);

}  // namespace lockstep
