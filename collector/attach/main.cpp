// The attach verb: looks at a job that hangs now, and was not started under Lockstep.
#include <climits>

#include "absl/strings/numbers.h"
#include "analyzer/settings/options.h"
#include "analyzer/util/system.h"
#include "collector/attach/attach.h"
#include "collector/common/say.h"

int main(int argc, char** argv) {
  lockstep::OccupyClosedStandardFiles();
  lockstep::SilenceLibraries();
  const absl::StatusOr<lockstep::settings::ParsedOptions> parsed = lockstep::settings::Parse("attach", argc, argv);
  if (const std::optional<int> status = lockstep::settings::Finished("attach", parsed)) return *status;
  lockstep::AttachOptions options;
  for (const std::string& word : parsed->operands()) {
    int pid = 0;
    if (!absl::SimpleAtoi(word, &pid) || pid <= 0)
      return lockstep::settings::UsageError("attach", parsed->Wrong("'" + word + "' is no PID"));
    options.pids.push_back(pid);
  }
  if (parsed->Given("hosts") && (!options.pids.empty() || parsed->Given("stream")))
    return lockstep::settings::UsageError(
        "attach", parsed->Wrong("--hosts goes with neither PIDs nor --stream, which are of one host"));
  options.job = parsed->Text("job");
  options.slurm = parsed->Text("slurm");
  options.out = parsed->Text("out");
  options.host = parsed->Given("host") ? parsed->Text("host") : lockstep::HostName();
  options.stream = parsed->Text("stream");
  options.hosts = parsed->Text("hosts");
  options.launch = lockstep::settings::SplitText(parsed->Text("launch"), ' ');
  options.redact = lockstep::ParseRedactLevel(parsed->Text("redact")).value();
  return lockstep::Attach(options);
}
