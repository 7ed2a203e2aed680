// Writes the detector's decisions as text, for users and scripts: one JSON object per line, with every figure behind
// the decision.
#pragma once

#include <cstdint>
#include <string>

#include "collector/detect/detector.h"

namespace lockstep {

// Contains no newline. `real_ns` is the wall clock of the decision; `job` is "name/step/restart".
std::string DecisionJson(const Decision& decision, const std::string& job, int64_t real_ns);

}  // namespace lockstep
