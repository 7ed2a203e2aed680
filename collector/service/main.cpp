// The collector verb.
#include <cstdio>

#include "collector/common/say.h"
#include "collector/service/options.h"
#include "collector/service/process.h"

int main(int argc, char** argv) {
  lockstep::OccupyClosedStandardFiles();
  const absl::StatusOr<lockstep::CollectorOptions> options = lockstep::ParseCollectorOptions(argc, argv);
  if (!options.ok()) {
    lockstep::Say(options.status().message());
    return 2;
  }
  if (options->help) {
    fputs(lockstep::CollectorHelp(), stdout);
    return 0;
  }
  if (options->version) {
    puts("lockstep-collector " LOCKSTEP_VERSION);
    return 0;
  }
  return lockstep::RunCollector(*options);
}
