// Checks keys, and whether the collector answers.
#pragma once

#include <cstdint>
#include <vector>

#include "collector/tools/doctor/check.h"
#include "collector/wire/tool_client.h"

namespace lockstep::doctor {

// Checks every key file in the places that the tools search.
Check KeysCheck(const ToolOptions& options);
// Connects to the collector as a reader and waits for its answer, at most for the limit.
Check CollectorCheck(const ToolOptions& options, int64_t timeout_ns);

}  // namespace lockstep::doctor
