// Advice for processes in a checkpoint, a data loader and the like.
#pragma once

#include <string>
#include <vector>

#include "proto/verdict.pb.h"

namespace lockstep {

// By Finding::activity; empty if there is none.
std::vector<std::string> ActivityAdvice(const Finding& finding);

}  // namespace lockstep
