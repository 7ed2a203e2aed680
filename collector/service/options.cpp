#include "collector/service/options.h"

namespace lockstep {

absl::StatusOr<CollectorOptions> MakeCollectorOptions(const settings::ParsedOptions& parsed) {
  CollectorOptions options;
  options.listen = parsed.List("listen");
  options.upstream = parsed.List("upstream");
  options.metrics = parsed.Text("metrics");
  options.security.own_key = parsed.Text("key");
  options.security.known_keys = parsed.Text("known-keys");
  options.security.server_key = parsed.Text("server-key");
  options.security.insecure = parsed.Flag("insecure");
  if (const std::string keys = parsed.Text("keys"); !keys.empty()) {
    if (options.security.own_key.empty())
      options.security.own_key = keys + (options.upstream.empty() ? "/collector.key" : "/relay.key");
    if (options.security.known_keys.empty()) options.security.known_keys = keys;
  }
  if (parsed.Given("out")) options.out = parsed.Text("out");
  options.quota = parsed.Bytes("quota");
  options.host_quota = parsed.Bytes("host-quota");
  options.group = parsed.Text("group");
  options.keep_s = parsed.Age("keep");
  options.keep_bytes = parsed.Bytes("keep-bytes");
  options.late_after_ns = parsed.Nanoseconds("late-after");
  options.hang_after_ns = parsed.Nanoseconds("hang-after");
  options.silent_after_ns = parsed.Nanoseconds("silent-after");
  options.on_verdict = parsed.Text("on-verdict");
  options.on_verdict_ns = parsed.Nanoseconds("on-verdict-timeout");
  options.archive = parsed.Text("archive");
  options.finalise = parsed.Text("finalise");
  options.index = parsed.Text("index");
  if (!options.upstream.empty() && !options.on_verdict.empty())
    return parsed.Wrong("a relay (--upstream) produces no verdicts: give --on-verdict to the collector");
  return options;
}

}  // namespace lockstep
