// Keys, and whether the collector answers.
#ifndef LOCKSTEP_COLLECTOR_TOOLS_DOCTOR_NETWORK_CHECKS_H_
#define LOCKSTEP_COLLECTOR_TOOLS_DOCTOR_NETWORK_CHECKS_H_

#include <cstdint>
#include <vector>

#include "collector/tools/doctor/check.h"
#include "collector/wire/tool_client.h"

namespace lockstep::doctor {

// Every key file in the places where the tools look.
Check KeysCheck(const ToolOptions& options);
// Connects to the collector as a reader and waits for its answer, within the limit.
Check CollectorCheck(const ToolOptions& options, int64_t timeout_ns);

}  // namespace lockstep::doctor

#endif  // LOCKSTEP_COLLECTOR_TOOLS_DOCTOR_NETWORK_CHECKS_H_
