// Advice for processes whose activity is known, such as a checkpoint or a data loader.
#pragma once

#include <string>
#include <vector>

#include "proto/verdict.pb.h"

namespace lockstep {

// Returns the advice for Finding::activity. Empty if the finding has no activity.
std::vector<std::string> ActivityAdvice(const Finding& finding);

}  // namespace lockstep
