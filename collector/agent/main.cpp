// The agent verb.
#include <cstdio>

#include "collector/agent/options.h"
#include "collector/agent/process.h"
#include "collector/common/say.h"

int main(int argc, char** argv) {
  lockstep::OccupyClosedStandardFiles();
  const absl::StatusOr<lockstep::AgentOptions> options = lockstep::ParseAgentOptions(argc, argv);
  if (!options.ok()) {
    lockstep::Say(options.status().message());
    return 2;
  }
  if (options->help) {
    fputs(lockstep::AgentHelp(), stdout);
    return 0;
  }
  if (options->version) {
    puts("lockstep-agent " LOCKSTEP_VERSION);
    return 0;
  }
  return lockstep::RunAgent(*options);
}
