// Paths of Lockstep's other programs: lockstep-VERB next to the running program. If this program contains every verb
// (the static `lockstep`, packaging/static/), uses this program.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// Returns the command for VERB without arguments; its first word is the path of the program. Does not check that it
// exists.
std::vector<std::string> OwnProgram(const std::string& verb);

// Declares that this program contains every verb. Call it before any thread starts.
void DeclareEveryVerb();

// Exit status of `lockstep attach --stream` if the job has no process on this host.
inline constexpr int kNothingHere = 4;

}  // namespace lockstep
