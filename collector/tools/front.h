// `lockstep VERB ARGUMENTS...` runs lockstep-VERB from the folder this program lies in, or a verb that the program
// holds itself.
#ifndef LOCKSTEP_COLLECTOR_TOOLS_FRONT_H_
#define LOCKSTEP_COLLECTOR_TOOLS_FRONT_H_

#include <vector>

namespace lockstep {

struct InnerVerb {
  const char* name;
  int (*main)(int argc, char** argv);
};

// Exit status. Called by the name lockstep-VERB, an inner verb is run as well. INNER come before programs of their
// names; their argv[0] ends with /lockstep-VERB.
int Front(int argc, char** argv, const std::vector<InnerVerb>& inner);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_TOOLS_FRONT_H_
