// Paths of Lockstep's other programs: lockstep-VERB beside the running program. If one program contains every verb (the
// static `lockstep`, packaging/static/), it is that program itself.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// The command for VERB, without arguments; its first word is the path of the program. Does not check whether it exists.
std::vector<std::string> OwnProgram(const std::string& verb);

// Declares that this program contains every verb. Call it before any thread starts.
void HoldsEveryVerb();

}  // namespace lockstep
