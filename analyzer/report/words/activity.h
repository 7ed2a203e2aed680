// Advice for processes in a checkpoint, a data loader and the like.
#pragma once

#include <string>
#include <vector>

#include "proto/verdict.pb.h"

namespace lockstep {

// Returns the advice for Finding::activity. Empty if the finding has no activity.
std::vector<std::string> ActivityAdvice(const Finding& finding);

}  // namespace lockstep
