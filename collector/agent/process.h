// `lockstep agent`: the process that contains session, ranks, spool and transport.
#ifndef LOCKSTEP_COLLECTOR_AGENT_PROCESS_H_
#define LOCKSTEP_COLLECTOR_AGENT_PROCESS_H_

#include "collector/agent/options.h"

namespace lockstep {

// Returns the exit status. Call once, from the main thread, before any other thread exists.
int RunAgent(const AgentOptions& options);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_AGENT_PROCESS_H_
