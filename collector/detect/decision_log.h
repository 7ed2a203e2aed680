// The detector's decisions as text: one JSON object a line, with every figure behind the decision, for users and
// scripts months later.
#ifndef LOCKSTEP_COLLECTOR_DETECT_DECISION_LOG_H_
#define LOCKSTEP_COLLECTOR_DETECT_DECISION_LOG_H_

#include <cstdint>
#include <string>

#include "collector/detect/detector.h"
#include "collector/detect/lateness.h"

namespace lockstep {

// No newline. `real_ns`: wall clock of the decision; `job`: "name/step/restart".
std::string DecisionJson(const Decision& decision, const std::string& job, int64_t real_ns);
// For an agent's own decisions; `host` is its host.
std::string DecisionJson(const LateEvent& event, const std::string& job, const std::string& host, int64_t real_ns);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_DETECT_DECISION_LOG_H_
