// The verbs as they are written down, one function each. For table.cpp alone.
#ifndef LOCKSTEP_ANALYZER_SETTINGS_VERBS_H_
#define LOCKSTEP_ANALYZER_SETTINGS_VERBS_H_

#include <vector>

#include "analyzer/settings/table.h"

namespace lockstep::settings {

std::vector<Verb> MakeVerbs();

}  // namespace lockstep::settings

#endif  // LOCKSTEP_ANALYZER_SETTINGS_VERBS_H_
