// The run verb: starts a job under the recorder, watches it, says what stopped it.
#include <cstdio>

#include "collector/common/say.h"
#include "collector/run/options.h"
#include "collector/run/run.h"

int main(int argc, char** argv) {
  lockstep::OccupyClosedStandardFiles();
  absl::StatusOr<lockstep::RunOptions> options = lockstep::ParseRunOptions(argc, argv);
  if (!options.ok()) {
    lockstep::Say(options.status().message());
    return 2;
  }
  if (options->help) {
    fputs(lockstep::RunHelp(), stdout);
    return 0;
  }
  if (options->version) {
    puts("lockstep-run " LOCKSTEP_VERSION);
    return 0;
  }
  return lockstep::RunJob(*options);
}
