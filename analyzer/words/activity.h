// Advice for processes in a checkpoint, a data loader and the like.
#ifndef LOCKSTEP_ANALYZER_WORDS_ACTIVITY_H_
#define LOCKSTEP_ANALYZER_WORDS_ACTIVITY_H_

#include <string>
#include <vector>

#include "proto/verdict.pb.h"

namespace lockstep {

// By Finding::activity; empty without one.
std::vector<std::string> ActivityAdvice(const Finding& finding);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_WORDS_ACTIVITY_H_
