#include "collector/agent/options.h"
#include "collector/agent/process.h"
#include "collector/common/say.h"

int main(int argc, char** argv) {
  lockstep::OccupyClosedStandardFiles();
  lockstep::SilenceLibraries();
  const absl::StatusOr<lockstep::settings::ParsedOptions> parsed = lockstep::settings::Parse("agent", argc, argv);
  if (const std::optional<int> status = lockstep::settings::Finished("agent", parsed)) return *status;
  const absl::StatusOr<lockstep::AgentOptions> options = lockstep::MakeAgentOptions(*parsed);
  if (!options.ok()) return lockstep::settings::UsageError("agent", options.status());
  return lockstep::RunAgent(*options);
}
