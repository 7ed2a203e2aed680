// Creates the verbs and their options, for table.cpp.
#pragma once

#include <vector>

#include "analyzer/settings/table.h"

namespace lockstep::settings {

std::vector<Verb> MakeVerbs();

}  // namespace lockstep::settings
