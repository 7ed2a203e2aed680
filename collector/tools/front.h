// `lockstep VERB ARGUMENTS...` runs lockstep-VERB from this program's folder, or a verb that the program contains.
#pragma once

#include <vector>

namespace lockstep {

struct InnerVerb {
  const char* name;
  int (*main)(int argc, char** argv);
};

// Returns the exit status. If called by the name lockstep-VERB, it also runs an inner verb. `inner` verbs take
// precedence over programs with the same name; their argv[0] ends with /lockstep-VERB.
int Front(int argc, char** argv, const std::vector<InnerVerb>& inner);

}  // namespace lockstep
