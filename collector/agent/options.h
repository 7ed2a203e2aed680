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
  std::vector<std::string> collectors;  // endpoints, tried in this order; empty if the agent works without a collector
  wire::Security security;
  std::string spool;  // folder
  uint64_t spool_bytes = uint64_t{4} << 30;
  std::vector<std::string> rings;  // empty for the default places
  // Maximum age of rings of dead processes, since their last record; 0 for no limit.
  int64_t keep_rings_s = 7 * 86400;
  uint64_t keep_ring_bytes = uint64_t{5} << 30;  // maximum size of dead processes' rings in a folder; 0 for no limit
  bool containers = true;
  std::string log;      // file
  std::string metrics;  // empty if there is none
  std::string host;     // the host name, as in the rings
  int64_t late_after_ns = 5'000'000'000;
  bool alone = false;                     // start a private collector for the tools on this host
  std::string out;                        // folder for that collector's incidents; empty for a folder next to the spool
  std::string on_verdict;                 // shell command for verdicts; empty for the collector's default
  std::string on_verdict_timeout;         // in seconds; empty for the collector's default
  RedactLevel redact = RedactLevel::kNo;  // redaction of everything that leaves the host
  bool config_files = true;               // read configuration files
};

// Returns the options of `lockstep agent`, with defaults filled in.
absl::StatusOr<AgentOptions> MakeAgentOptions(const settings::ParsedOptions& parsed);

}  // namespace lockstep
