// `lockstep VERB ARGUMENTS...` runs lockstep-VERB from this program's folder, or a verb that the program contains.
#pragma once

#include <vector>

namespace lockstep {

struct InnerVerb {
  const char* name;
  int (*main)(int argc, char** argv);
};

// Runs the verb in argv[1], or an inner verb if argv[0] is lockstep-VERB. Returns the exit status, unless a program
// replaces this process. `inner` verbs take precedence, and get an argv[0] that ends with /lockstep-VERB.
int Front(int argc, char** argv, const std::vector<InnerVerb>& inner);

}  // namespace lockstep
