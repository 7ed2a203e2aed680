// The output of --help.
#ifndef LOCKSTEP_ANALYZER_SETTINGS_HELP_H_
#define LOCKSTEP_ANALYZER_SETTINGS_HELP_H_

#include <string>

#include "analyzer/settings/table.h"

namespace lockstep::settings {

// Lines of at most 80 columns, with a line end after the last.
std::string Help(const Verb& verb);

// The end of an option's help text: "choices; default; variable". May be empty.
std::string Details(const Row& row);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_ANALYZER_SETTINGS_HELP_H_
