#include "collector/common/own_programs.h"

#include <unistd.h>

#include "analyzer/util/system.h"

namespace lockstep {
namespace {

bool every_verb = false;

}  // namespace

std::vector<std::string> OwnProgram(const std::string& verb) {
  const std::string self = OwnPath(), folder = OwnFolder();
  if (every_verb) return {self.empty() ? "/proc/self/exe" : self, verb};
  std::string program = folder + "lockstep-" + verb;
  // In a build tree, tests and the doctor's probe are in other folders.
  if (access(program.c_str(), X_OK) != 0 && access((folder + "../bin/lockstep-" + verb).c_str(), X_OK) == 0)
    program = folder + "../bin/lockstep-" + verb;
  return {program};
}

void DeclareEveryVerb() { every_verb = true; }

}  // namespace lockstep
