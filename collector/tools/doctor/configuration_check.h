// The configuration files that apply.
#ifndef LOCKSTEP_COLLECTOR_TOOLS_DOCTOR_CONFIGURATION_CHECK_H_
#define LOCKSTEP_COLLECTOR_TOOLS_DOCTOR_CONFIGURATION_CHECK_H_

#include <vector>

#include "absl/status/status.h"
#include "collector/tools/doctor/check.h"

namespace lockstep::doctor {

// `problem`: what kept the doctor itself from using them; OK where nothing did.
std::vector<Check> ConfigurationChecks(const absl::Status& problem);

}  // namespace lockstep::doctor

#endif  // LOCKSTEP_COLLECTOR_TOOLS_DOCTOR_CONFIGURATION_CHECK_H_
