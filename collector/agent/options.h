// Options of `lockstep agent`.
#ifndef LOCKSTEP_COLLECTOR_AGENT_OPTIONS_H_
#define LOCKSTEP_COLLECTOR_AGENT_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/settings/options.h"
#include "collector/wire/keys.h"

namespace lockstep {

struct AgentOptions {
  std::vector<std::string> collectors;  // endpoints, tried in this order; empty: none, it works alone
  wire::Security security;
  std::string spool;  // folder
  uint64_t spool_bytes = uint64_t{4} << 30;
  std::vector<std::string> rings;                // empty: the default places
  int64_t keep_rings_s = 7 * 86400;              // of dead processes, since the last record; 0: any age
  uint64_t keep_ring_bytes = uint64_t{5} << 30;  // of them in a folder; 0: no limit
  bool containers = true;
  std::string log;      // file
  std::string metrics;  // empty: none
  std::string host;     // the host's name in the rings
  int64_t late_after_ns = 5'000'000'000;
  bool alone = false;                     // with its own collector, for tools on this host
  std::string out;                        // its incidents; empty: beside the spool
  std::string on_verdict;                 // its shell command; empty: as in the collector's settings
  std::string on_verdict_timeout;         // seconds; likewise
  RedactLevel redact = RedactLevel::kNo;  // applied before anything leaves the host
  bool config_files = true;               // were read
};

// The options of `lockstep agent`, with defaults filled in.
absl::StatusOr<AgentOptions> MakeAgentOptions(const settings::ParsedOptions& parsed);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_AGENT_OPTIONS_H_
