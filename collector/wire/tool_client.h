// How people's tools (dump, top) find the collector and prove who they are: what options say, else what the agent or
// collector of this host wrote into its runtime folder.
#ifndef LOCKSTEP_COLLECTOR_WIRE_TOOL_CLIENT_H_
#define LOCKSTEP_COLLECTOR_WIRE_TOOL_CLIENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analyzer/settings/options.h"
#include "collector/wire/keys.h"

namespace lockstep {

struct ToolOptions {
  std::string collector;   // --collector
  std::string key;         // --key
  std::string server_key;  // --server-key
  bool insecure = false;   // --insecure
};

ToolOptions MakeToolOptions(const settings::ParsedOptions& parsed);

// Path of the first of these files in $LOCKSTEP_KEYS, ~/.config/lockstep/keys or /etc/lockstep/keys that can be read;
// or empty.
std::string FindKey(const std::vector<std::string>& names);

struct CollectorAddress {
  std::string endpoint;
  wire::Security security;
  std::string found;  // where it was said: "--collector", "LOCKSTEP_COLLECTOR", a file's path
};
// Where no key is given, operator.key and reader.key are looked for in $LOCKSTEP_KEYS, ~/.config/lockstep/keys and
// /etc/lockstep/keys. NotFound says every place that was looked at and what to do.
absl::StatusOr<CollectorAddress> FindCollector(const ToolOptions& options);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_WIRE_TOOL_CLIENT_H_
