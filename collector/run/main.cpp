// The run verb: starts a job under the recorder, watches it, and reports what stopped it.
#include "collector/common/say.h"
#include "collector/run/options.h"
#include "collector/run/run.h"

int main(int argc, char** argv) {
  lockstep::OccupyClosedStandardFiles();
  lockstep::SilenceLibraries();
  const absl::StatusOr<lockstep::settings::ParsedOptions> parsed = lockstep::settings::Parse("run", argc, argv);
  if (const std::optional<int> status = lockstep::settings::Finished("run", parsed)) return *status;
  return lockstep::RunJob(lockstep::MakeRunOptions(*parsed));
}
