// Tools with which an assistant examines an incident. Each line of an answer begins with the id of its evidence.
#pragma once

#include <vector>

#include "analyzer/cli/mcp/incident_list.h"
#include "analyzer/cli/mcp/protocol.h"

namespace lockstep {

// Returns the tools incidents, verdict, why, ranks, stacks, query and compare. `incidents` must outlive them.
std::vector<McpTool> IncidentTools(IncidentList* incidents);

}  // namespace lockstep
