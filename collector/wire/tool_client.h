// How tools (dump, top) find the collector: by options, otherwise by the address that this host's agent or collector
// wrote into its runtime folder.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analyzer/settings/options.h"
#include "collector/wire/client.h"
#include "collector/wire/keys.h"
#include "proto/wire.pb.h"

namespace lockstep {

struct ToolOptions {
  std::string collector;   // --collector
  std::string key;         // --key
  std::string server_key;  // --server-key
  bool insecure = false;   // --insecure
};

ToolOptions MakeToolOptions(const settings::ParsedOptions& parsed);

// Fills in missing key paths of a client: the first readable file of `own_keys`, and collector.pub, in $LOCKSTEP_KEYS,
// ~/.config/lockstep/keys or /etc/lockstep/keys. For local sockets only if LOCKSTEP_KEYS or a key is set, because a
// local collector may run without keys.
void FindKeys(const std::vector<std::string>& endpoints, const std::vector<std::string>& own_keys,
              wire::Security* security);

struct CollectorAddress {
  std::string endpoint;
  wire::Security security;
  std::string found;  // for messages: the possible sources of a given address, or the path of a runtime file
};
// Without a given key, looks for operator.key, then reader.key. NotFound lists the places searched and what to do.
// Other errors: the collector answers only another user, a file is not trusted, or a key is missing or has another
// role.
absl::StatusOr<CollectorAddress> FindCollector(const ToolOptions& options);
absl::StatusOr<std::unique_ptr<wire::Client>> ConnectTo(const CollectorAddress& address);

// Sends the request, repeats it after each reconnection, and calls `take` for each reply. Prints progress, and a notice
// if no answer arrives. Returns Unavailable if the collector refuses, or after `limit_ns`.
absl::Status AskCollector(const CollectorAddress& address, ClientRequest request, int64_t limit_ns,
                          const std::function<void(const ClientReply&)>& take);

}  // namespace lockstep
