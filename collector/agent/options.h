#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/evidence/redact.h"
#include "analyzer/settings/options.h"
#include "collector/wire/keys.h"

namespace lockstep {

struct AgentOptions {
  explicit AgentOptions(const settings::ParsedOptions& parsed) : given(parsed) {}

  settings::ParsedOptions given;
  std::vector<std::string> collectors;  // endpoints, tried in this order; empty if the agent works without a collector
  wire::Security security;
  std::string spool;                      // folder
  std::string log;                        // file
  std::string host;                       // the host name, as in the rings
  std::string out;                        // with --alone: folder for incidents
  RedactLevel redact = RedactLevel::kNo;  // redaction of everything that leaves the host
};

// Returns the options of `lockstep agent`, with defaults filled in.
absl::StatusOr<AgentOptions> MakeAgentOptions(const settings::ParsedOptions& parsed);

}  // namespace lockstep
