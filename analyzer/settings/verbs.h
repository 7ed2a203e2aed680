// The definitions of the verbs, one function each. Only table.cpp includes this file.
#pragma once

#include <vector>

#include "analyzer/settings/table.h"

namespace lockstep::settings {

std::vector<Verb> MakeVerbs();

}  // namespace lockstep::settings
