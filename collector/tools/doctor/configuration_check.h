// Checks the configuration files that apply.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "collector/tools/doctor/check.h"

namespace lockstep::doctor {

// `problem` says why the doctor itself could not use them; OK if it could.
std::vector<Check> ConfigurationChecks(const absl::Status& problem);

}  // namespace lockstep::doctor
