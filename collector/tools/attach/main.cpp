// The attach verb: examines a job that is hanging now and was not started under Lockstep.
#include <signal.h>

#include "absl/strings/numbers.h"
#include "analyzer/settings/options.h"
#include "analyzer/util/system.h"
#include "collector/common/say.h"
#include "collector/tools/attach/attach.h"
#include "collector/tools/attach/hosts.h"

int main(int argc, char** argv) {
  lockstep::OccupyClosedStandardFiles();
  for (const int number : {SIGPIPE, SIGXFSZ})
    signal(number, SIG_IGN);  // a failed write to the output or to a file must not prevent the verdict
  lockstep::SilenceLibraries();
  const absl::StatusOr<lockstep::settings::ParsedOptions> parsed = lockstep::settings::Parse("attach", argc, argv);
  if (const std::optional<int> status = lockstep::settings::Finished("attach", parsed)) return *status;
  lockstep::AttachOptions options;
  for (const std::string& word : parsed->operands()) {
    int pid = 0;
    if (absl::SimpleAtoi(word, &pid) && pid > 0) {
      options.pids.push_back(pid);
    } else if (parsed->operands().size() > 1 || parsed->Given("job")) {
      return lockstep::settings::UsageError("attach", parsed->Wrong("'" + word + "' is no PID"));
    } else {
      options.job = word;
    }
  }
  const bool hosts = parsed->Given("hosts"), pods = parsed->Given("kubernetes"), agents = parsed->Flag("agents");
  if ((hosts || pods || agents) && (!options.pids.empty() || parsed->Given("stream")))
    return lockstep::settings::UsageError(
        "attach",
        parsed->Wrong(
            "--agents, --hosts and --kubernetes cannot be combined with PIDs or --stream, which are for one host"));
  if (hosts + pods + agents > 1)
    return lockstep::settings::UsageError("attach", parsed->Wrong("give one of --agents, --hosts and --kubernetes"));
  if (agents && parsed->Flag("ask-torch"))
    return lockstep::settings::UsageError(
        "attach", parsed->Wrong("--ask-torch cannot be combined with --agents: agents never write into a process"));
  if (agents) {
    absl::StatusOr<lockstep::CollectorAddress> address = lockstep::FindCollector(lockstep::MakeToolOptions(*parsed));
    if (!address.ok()) {
      lockstep::Say(address.status().message());
      return lockstep::kNoVerdict;
    }
    options.agents = *std::move(address);
  }
  if (options.job.empty()) options.job = parsed->Text("job");
  options.slurm = parsed->Text("slurm");
  options.out = parsed->Text("out");
  options.host = parsed->Given("host") ? parsed->Text("host") : lockstep::HostName();
  options.stream = parsed->Text("stream");
  options.hosts = parsed->Text("hosts");
  const auto text = [&parsed](const char* key, const char* otherwise) {
    const std::string given = parsed->Text(key);
    return given.empty() ? std::string(otherwise) : given;
  };
  options.launch = lockstep::settings::SplitText(text("launch", "ssh -o BatchMode=yes"), ' ');
  options.remote = text("remote", "lockstep");
  options.kubernetes = parsed->Text("kubernetes");
  options.pod_namespace = parsed->Text("namespace");
  options.container = parsed->Text("container");
  options.kubectl = lockstep::settings::SplitText(text("kubectl", "kubectl"), ' ');
  options.ask_torch = parsed->Flag("ask-torch");
  options.redact = lockstep::ParseRedactLevel(parsed->Text("redact")).value();
  return lockstep::Attach(options);
}
