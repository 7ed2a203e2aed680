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

void FillDefaults(AgentOptions* options) {
  if (options->spool.empty()) options->spool = DefaultSpool();
  if (options->log.empty()) options->log = options->spool + "/agent.log";
  if (options->host.empty()) options->host = HostName();
  // For a local socket, keys are used only if some are configured, because its collector may run without keys.
  bool keys = !EnvironmentValue("LOCKSTEP_KEYS").empty() || !options->security.own_key.empty() ||
              !options->security.server_key.empty();
  for (const std::string& endpoint : options->collectors) keys |= !wire::IsLocal(endpoint);
  if (keys && !options->security.insecure) {
    if (options->security.own_key.empty()) options->security.own_key = FindKey({"agent.key"});
    if (options->security.server_key.empty()) options->security.server_key = FindKey({"collector.pub"});
  }
}

}  // namespace

absl::StatusOr<AgentOptions> MakeAgentOptions(const settings::ParsedOptions& parsed) {
  AgentOptions options;
  options.collectors = parsed.List("collector");
  options.alone = parsed.Flag("alone");
  options.out = parsed.Text("out");
  options.on_verdict = parsed.Text("on-verdict");
  if (parsed.Given("on-verdict-timeout")) options.on_verdict_timeout = parsed.Text("on-verdict-timeout");
  options.security.own_key = parsed.Text("key");
  options.security.server_key = parsed.Text("server-key");
  options.security.insecure = parsed.Flag("insecure");
  options.spool = parsed.Text("spool");
  options.spool_bytes = parsed.Bytes("spool-bytes");
  options.log = parsed.Text("log");
  options.rings = parsed.List("rings");
  options.keep_rings_s = parsed.Age("keep-rings");
  options.keep_ring_bytes = parsed.Bytes("keep-ring-bytes");
  options.containers = parsed.Flag("containers");
  options.metrics = parsed.Text("metrics");
  options.host = parsed.Text("host");
  options.late_after_ns = parsed.Nanoseconds("late-after");
  options.redact = ParseRedactLevel(parsed.Text("redact")).value();
  options.config_files = parsed.config_files;
  if (options.keep_ring_bytes > 0 && options.keep_ring_bytes < kLeastRingBytes)
    return parsed.Wrong("--keep-ring-bytes takes 0, or at least 1M");
  FillDefaults(&options);
  if (options.alone && options.out.empty())
    options.out = options.spool.substr(0, options.spool.find_last_of('/') + 1) + "incidents";
  return options;
}

}  // namespace lockstep
