// Makes the text of --help.
#pragma once

#include <string>

#include "analyzer/settings/table.h"

namespace lockstep::settings {

// Returns lines of at most 80 columns, each ending in a newline.
std::string Help(const Verb& verb);

// Returns the end of an option's help text: "choices; default; variable". May be empty.
std::string Details(const Row& row);

}  // namespace lockstep::settings
