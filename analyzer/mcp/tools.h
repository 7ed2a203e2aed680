// What an assistant may ask about an incident. Each line of an answer begins with the id of the evidence that it gives.
#ifndef LOCKSTEP_ANALYZER_MCP_TOOLS_H_
#define LOCKSTEP_ANALYZER_MCP_TOOLS_H_

#include <vector>

#include "analyzer/mcp/incidents.h"
#include "analyzer/mcp/protocol.h"

namespace lockstep {

// incidents, verdict, why, ranks, stacks, query, compare. `incidents` must outlive them.
std::vector<McpTool> IncidentTools(Incidents* incidents);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_MCP_TOOLS_H_
