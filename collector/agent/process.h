// `lockstep agent`: the process that owns the session, the ranks, the spool and the transport.
#pragma once

#include "collector/agent/options.h"

namespace lockstep {

// Returns the exit status. Call once, from the main thread, before any other thread exists.
int RunAgent(const AgentOptions& options);

}  // namespace lockstep
