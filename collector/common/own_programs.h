// Paths of Lockstep's other programs: lockstep-VERB beside the running program, or, if every verb is in one program
// (the static `lockstep`, packaging/static/), that program itself.
#ifndef LOCKSTEP_COLLECTOR_COMMON_OWN_PROGRAMS_H_
#define LOCKSTEP_COLLECTOR_COMMON_OWN_PROGRAMS_H_

#include <string>
#include <vector>

namespace lockstep {

// The command for VERB, without arguments; its first word is the path of the program. Does not check whether it exists.
std::vector<std::string> OwnProgram(const std::string& verb);

// Call it before any thread starts: this program contains every verb.
void HoldsEveryVerb();

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_COMMON_OWN_PROGRAMS_H_
