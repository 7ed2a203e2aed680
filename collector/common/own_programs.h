// Lockstep's other programs, for those that start one: lockstep-VERB beside the running program, or, where every verb
// is in one program (the static `lockstep`, packaging/static/), that program again.
#ifndef LOCKSTEP_COLLECTOR_COMMON_OWN_PROGRAMS_H_
#define LOCKSTEP_COLLECTOR_COMMON_OWN_PROGRAMS_H_

#include <string>
#include <vector>

namespace lockstep {

// The command that VERB's arguments are put behind; its first word is the path of the program. Whether it is there is
// not looked at.
std::vector<std::string> OwnProgram(const std::string& verb);

// Call it before any thread starts: this program contains every verb.
void HoldsEveryVerb();

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_COMMON_OWN_PROGRAMS_H_
