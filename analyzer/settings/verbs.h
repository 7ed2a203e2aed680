// The definitions of the verbs, one function each. Only for table.cpp.
#ifndef LOCKSTEP_ANALYZER_SETTINGS_VERBS_H_
#define LOCKSTEP_ANALYZER_SETTINGS_VERBS_H_

#include <vector>

#include "analyzer/settings/table.h"

namespace lockstep::settings {

std::vector<Verb> MakeVerbs();

}  // namespace lockstep::settings

#endif  // LOCKSTEP_ANALYZER_SETTINGS_VERBS_H_
