// The `collector` command.
#include "collector/common/say.h"
#include "collector/service/options.h"
#include "collector/service/process.h"

int main(int argc, char** argv) {
  lockstep::OccupyClosedStandardFiles();
  lockstep::SilenceLibraries();
  const absl::StatusOr<lockstep::settings::ParsedOptions> parsed = lockstep::settings::Parse("collector", argc, argv);
  if (const std::optional<int> status = lockstep::settings::Finished("collector", parsed)) return *status;
  const absl::StatusOr<lockstep::CollectorOptions> options = lockstep::MakeCollectorOptions(*parsed);
  if (!options.ok()) return lockstep::settings::UsageError("collector", options.status());
  return lockstep::RunCollector(*options);
}
