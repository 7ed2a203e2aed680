// The process of `lockstep collector`: sockets, threads, signals and clocks around CollectorCore, or around a relay.
#ifndef LOCKSTEP_COLLECTOR_SERVICE_PROCESS_H_
#define LOCKSTEP_COLLECTOR_SERVICE_PROCESS_H_

#include "collector/service/options.h"

namespace lockstep {

// Returns the exit status: 0 when SIGTERM or SIGINT ended it, 1 when it could not start.
int RunCollector(const CollectorOptions& options);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_SERVICE_PROCESS_H_
