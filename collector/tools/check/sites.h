// Finds the source lines of calls in compiled programs.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep::check {

// Sets Op::call_site of calls from one of these files. A ring identifies the caller's file by its build ID. Ignores
// words of a command that are not ELF files.
void AddCallSites(const std::vector<std::string>& files, Bundle* bundle);

}  // namespace lockstep::check
