#include "collector/common/own_programs.h"

#include <limits.h>
#include <unistd.h>

namespace lockstep {
namespace {

bool every_verb = false;

}  // namespace

std::vector<std::string> OwnProgram(const std::string& verb) {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  const std::string self(path, length > 0 ? static_cast<size_t>(length) : 0);
  if (every_verb) return {self.empty() ? "/proc/self/exe" : self, verb};
  const size_t slash = self.rfind('/');
  std::string folder = slash == std::string::npos ? "" : self.substr(0, slash + 1);
  std::string program = folder + "lockstep-" + verb;
  // Tests and the doctor's probe lie in other folders of a build.
  if (access(program.c_str(), X_OK) != 0 && access((folder + "../bin/lockstep-" + verb).c_str(), X_OK) == 0)
    program = folder + "../bin/lockstep-" + verb;
  return {program};
}

void HoldsEveryVerb() {
  every_verb = true;
}

}  // namespace lockstep
