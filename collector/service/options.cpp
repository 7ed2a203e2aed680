#include "collector/service/options.h"

namespace lockstep {

absl::StatusOr<CollectorOptions> MakeCollectorOptions(const settings::ParsedOptions& parsed) {
  CollectorOptions options(parsed);
  options.upstream = parsed.List("upstream");
  options.security.own_key = parsed.Text("key");
  options.security.known_keys = parsed.Text("known-keys");
  options.security.server_key = parsed.Text("server-key");
  options.security.insecure = parsed.Flag("insecure");
  if (const std::string keys = parsed.Text("keys"); !keys.empty()) {
    if (options.security.own_key.empty())
      options.security.own_key = keys + (options.upstream.empty() ? "/collector.key" : "/relay.key");
    if (options.security.known_keys.empty()) options.security.known_keys = keys;
  }
  if (!options.upstream.empty() && !parsed.Text("on-verdict").empty())
    return parsed.Wrong("a relay (--upstream) produces no verdicts: give --on-verdict to the collector");
  return options;
}

}  // namespace lockstep
