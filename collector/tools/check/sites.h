// Source lines of the places in compiled programs that issued calls.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep::check {

// Sets Op::call_site of calls whose caller is in one of these files. A ring identifies the caller's file by its build
// id. Words of a command that name no ELF file are ignored.
void AddCallSites(const std::vector<std::string>& files, Bundle* bundle);

}  // namespace lockstep::check
