#include "collector/agent/options.h"

#include <unistd.h>

#include "analyzer/util/system.h"
#include "collector/common/runtime_folder.h"
#include "collector/wire/tool_client.h"

namespace lockstep {
namespace {

constexpr uint64_t kLeastRingBytes = 1 << 20;

std::string DefaultSpool() {
  if (geteuid() == 0) return "/var/lib/lockstep/spool";
  if (const std::string state = EnvironmentValue("XDG_STATE_HOME"); !state.empty()) return state + "/lockstep/spool";
  if (const std::string home = EnvironmentValue("HOME"); !home.empty()) return home + "/.local/state/lockstep/spool";
  return RuntimeFolderPath() + "/spool";
}

}  // namespace

absl::StatusOr<AgentOptions> MakeAgentOptions(const settings::ParsedOptions& parsed) {
  AgentOptions options(parsed);
  options.collectors = parsed.List("collector");
  options.security.own_key = parsed.Text("key");
  options.security.server_key = parsed.Text("server-key");
  options.security.insecure = parsed.Flag("insecure");
  options.spool = parsed.Text("spool");
  options.log = parsed.Text("log");
  options.host = parsed.Text("host");
  options.out = parsed.Text("out");
  options.redact = ParseRedactLevel(parsed.Text("redact")).value();
  const uint64_t keep = parsed.Bytes("keep-ring-bytes");
  if (keep > 0 && keep < kLeastRingBytes) return parsed.Wrong("--keep-ring-bytes takes 0, or at least 1M");
  if (options.spool.empty()) options.spool = DefaultSpool();
  if (options.log.empty()) options.log = options.spool + "/agent.log";
  if (options.host.empty()) options.host = HostName();
  FindKeys(options.collectors, {"agent.key"}, &options.security);
  if (parsed.Flag("alone") && options.out.empty())
    options.out = options.spool.substr(0, options.spool.find_last_of('/') + 1) + "incidents";
  return options;
}

}  // namespace lockstep
