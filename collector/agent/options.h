// Options of `lockstep agent`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/settings/options.h"
#include "collector/wire/keys.h"

namespace lockstep {

struct AgentOptions {
  std::vector<std::string> collectors;  // endpoints, tried in this order; empty if the agent works alone
  wire::Security security;
  std::string spool;  // folder
  uint64_t spool_bytes = uint64_t{4} << 30;
  std::vector<std::string> rings;  // empty for the default places
  // Maximum age of rings of dead processes, since the last record; 0 for any age.
  int64_t keep_rings_s = 7 * 86400;
  uint64_t keep_ring_bytes = uint64_t{5} << 30;  // maximum size of dead processes' rings in a folder; 0 for no limit
  bool containers = true;
  std::string log;      // file
  std::string metrics;  // empty if none
  std::string host;     // the host's name, as in the rings
  int64_t late_after_ns = 5'000'000'000;
  bool alone = false;                     // starts a collector of its own, for tools on this host
  std::string out;                        // folder for that collector's incidents; empty for a folder beside the spool
  std::string on_verdict;                 // shell command for verdicts; empty to use the collector's settings
  std::string on_verdict_timeout;         // seconds; empty to use the collector's settings
  RedactLevel redact = RedactLevel::kNo;  // applied before anything leaves the host
  bool config_files = true;               // configuration files were read
};

// The options of `lockstep agent`, with defaults filled in.
absl::StatusOr<AgentOptions> MakeAgentOptions(const settings::ParsedOptions& parsed);

}  // namespace lockstep
