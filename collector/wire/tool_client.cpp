#include "collector/wire/tool_client.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/system.h"
#include "analyzer/util/time_text.h"
#include "analyzer/util/time_units.h"
#include "collector/common/runtime_folder.h"
#include "collector/common/say.h"

namespace lockstep {
namespace {

constexpr int64_t kUnreached = 3 * kSecond;  // a missing answer is reported after this time

std::string FindKey(const std::vector<std::string>& names) {
  for (const std::string& folder : KeyFolders()) {
    for (const std::string& name : names) {
      if (std::string path = absl::StrCat(folder, "/", name); access(path.c_str(), R_OK) == 0) return path;
    }
  }
  return "";
}

}  // namespace

void FindKeys(const std::vector<std::string>& endpoints, const std::vector<std::string>& own_keys,
              wire::Security* security) {
  const bool used = !EnvironmentValue("LOCKSTEP_KEYS").empty() || !security->own_key.empty() ||
                    !security->server_key.empty() || !std::all_of(endpoints.begin(), endpoints.end(), wire::IsLocal);
  if (!used || security->insecure) return;
  if (security->own_key.empty()) security->own_key = FindKey(own_keys);
  if (security->server_key.empty()) security->server_key = FindKey({"collector.pub"});
}

ToolOptions MakeToolOptions(const settings::ParsedOptions& parsed) {
  return {parsed.Text("collector"), parsed.Text("key"), parsed.Text("server-key"), parsed.Flag("insecure")};
}

absl::StatusOr<CollectorAddress> FindCollector(const ToolOptions& options) {
  CollectorAddress address;
  address.endpoint = options.collector;
  address.found = "--collector, LOCKSTEP_COLLECTOR or a configuration file";
  address.security.insecure = options.insecure;
  address.security.own_key = options.key;
  address.security.server_key = options.server_key;
  if (address.endpoint.empty()) {
    // A host's own agent runs as root; a user's collector writes its address into the user's folder.
    std::vector<std::string> looked;
    std::vector<std::string> folders = ServiceFolders();
    const std::string own = RuntimeFolderPath();
    if (!EnvironmentValue("LOCKSTEP_RUNTIME_DIR").empty()) {
      folders = {own};
    } else if (std::find(folders.begin(), folders.end(), own) == folders.end()) {
      folders.insert(folders.begin(), own);
    }
    for (const std::string& folder : folders) {
      const absl::StatusOr<CollectorPlace> place = ReadCollectorPlace(folder);
      looked.push_back(folder + "/collector");
      if (absl::IsPermissionDenied(place.status())) {
        looked.back() += " that this user may read";
        continue;
      }
      if (place.ok()) {
        // The socket answers only that user and root (wire/server.cpp). Reports this at once instead of waiting for an
        // answer.
        if (absl::StartsWith(place->endpoint, "ipc://") && place->user != geteuid() && geteuid() != 0) {
          return absl::PermissionDeniedError(
              absl::StrCat("the agent on this host runs alone (", place->endpoint, ") and answers only user ",
                           place->user, ": run this as that user, or give a collector with --collector"));
        }
        address.endpoint = place->endpoint;
        address.found = looked.back();
        if (address.security.server_key.empty()) address.security.server_key = place->server_key;
        break;
      }
      // A file that cannot be trusted ends the search.
      if (!absl::IsNotFound(place.status())) return place.status();
    }
    if (address.endpoint.empty()) {
      return absl::NotFoundError(absl::StrCat("found no collector: no ", absl::StrJoin(looked, ", no "),
                                              "; give --collector ENDPOINT or set LOCKSTEP_COLLECTOR, or start "
                                              "`lockstep agent --alone`, which watches only this host"));
    }
  }
  FindKeys({address.endpoint}, {"operator.key", "reader.key"}, &address.security);
  if (const absl::Status status = wire::CheckSecurity(address.security, address.endpoint, false); !status.ok()) {
    return status;
  }
  // The collector silently drops messages that a role may not send, so the role is checked here.
  if (!address.security.own_key.empty()) {
    const absl::StatusOr<wire::KeyPair> key = wire::ReadSecretKey(address.security.own_key);
    if (!key.ok()) return key.status();
    if (key->role != wire::Role::kOperator && key->role != wire::Role::kReader) {
      return absl::FailedPreconditionError(absl::StrCat("key ", address.security.own_key, " is of role ",
                                                        wire::RoleName(key->role),
                                                        ": a tool needs a key of role operator or reader (--key)"));
    }
  }
  return address;
}

absl::StatusOr<std::unique_ptr<wire::Client>> ConnectTo(const CollectorAddress& address) {
  wire::ClientOptions options;
  options.endpoints = {address.endpoint};
  options.security = address.security;
  return wire::Client::Connect(options);
}

absl::Status AskCollector(const CollectorAddress& address, ClientRequest request, int64_t limit_ns,
                          const std::function<void(const ClientReply&)>& take) {
  const absl::StatusOr<std::unique_ptr<wire::Client>> made = ConnectTo(address);
  if (!made.ok()) return made.status();
  wire::Client& client = **made;
  const uint64_t instance = RandomInstance();
  request.set_request(instance);
  const int64_t began = MonotonicNs();
  bool welcome = false, unreached_said = false;
  for (;;) {
    const int64_t now = MonotonicNs();
    const std::string why = client.last_error().empty() ? "" : ": " + client.last_error();
    if (now - began > limit_ns)
      return absl::UnavailableError(absl::StrCat("no response within ", DurationText(limit_ns), why));
    if (!welcome && !unreached_said && now - began > kUnreached) {
      unreached_said = true;
      Say(absl::StrCat("no response from the collector at ", address.endpoint, " (from ", address.found, ")", why,
                       "; retrying for ", DurationText(limit_ns - (now - began)),
                       ". Is it running there? lockstep doctor checks this"));
    }
    if (client.Tick(now)) {
      client.Send(wire::Type::kHello, wire::MakeHello(Hello::OPERATOR, instance)).IgnoreError();
      welcome = false;
    }
    while (const std::optional<wire::Message> message = client.Receive()) {
      if (message->header.type == wire::Type::kWelcome) {
        Welcome answer;
        if (!wire::DecodeBody(*message, &answer).ok()) continue;
        if (!answer.refused().empty())
          return absl::UnavailableError(absl::StrCat("the collector refuses this client: ", answer.refused()));
        if (welcome) continue;
        welcome = true;
        // The collector recognizes a repeated request by its number.
        client.Send(wire::Type::kClientRequest, request).IgnoreError();
      }
      ClientReply reply;
      if (message->header.type != wire::Type::kClientReply || !wire::DecodeBody(*message, &reply).ok() ||
          reply.request() != request.request())
        continue;
      if (!reply.error().empty()) return absl::UnavailableError(reply.error());
      if (!reply.progress().empty()) Say(reply.progress());
      take(reply);
      if (reply.done()) return absl::OkStatus();
    }
    pollfd polled{client.fd(), POLLIN, 0};
    poll(&polled, 1, 200);
  }
}

}  // namespace lockstep
