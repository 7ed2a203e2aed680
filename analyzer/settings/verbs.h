// Creates the verbs and their options, for table.cpp.
#pragma once

#include <string>
#include <vector>

#include "analyzer/settings/table.h"

namespace lockstep::settings {

std::vector<Verb> MakeVerbs();

// Returns the variable of a setting that has no other name: "LOCKSTEP_AGENT_LATE_AFTER".
std::string DerivedVariable(const std::string& section, const std::string& key);

}  // namespace lockstep::settings
