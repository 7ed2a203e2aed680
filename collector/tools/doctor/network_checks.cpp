#include "collector/tools/doctor/checks.h"

#include <poll.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/sorted.h"
#include "analyzer/util/system.h"
#include "collector/wire/client.h"
#include "proto/wire.pb.h"

namespace lockstep::doctor {

Check KeysCheck(const ToolOptions& options) {
  std::vector<std::string> files;
  if (!options.key.empty()) files.push_back(options.key);
  for (const std::string& folder : KeyFolders()) {
    for (const std::string& name : NamesIn(folder, 1000)) {
      if (absl::EndsWith(name, ".key")) files.push_back(absl::StrCat(folder, "/", name));
    }
  }
  SortUnique(&files);
  std::vector<std::string> good;
  for (const std::string& file : files) {
    // Skips keys that this user cannot read, except a given one.
    if (file != options.key && access(file.c_str(), R_OK) != 0) continue;
    const absl::StatusOr<wire::KeyPair> keys = wire::ReadSecretKey(file);
    if (!keys.ok())
      return Bad("keys", std::string(keys.status().message()),
                 "create it again with lockstep keygen, or fix its mode (0600) and owner");
    good.push_back(absl::StrCat(file, " (", wire::RoleName(keys->role), ")"));
  }
  if (good.empty()) {
    return Note(
        "keys", absl::StrCat("no key in ", absl::StrJoin(KeyFolders(), ", ")),
        "lockstep run on one host needs none; for a collector on another host, create one with lockstep keygen");
  }
  return Good("keys", absl::StrJoin(good, ", "));
}

Check CollectorCheck(const ToolOptions& options, int64_t timeout_ns) {
  const std::string name = "collector";
  const absl::StatusOr<CollectorAddress> address = FindCollector(options);
  if (absl::IsNotFound(address.status())) {
    return Note(name, "none found",
                "lockstep run on one host needs none; otherwise give --collector ENDPOINT or set LOCKSTEP_COLLECTOR");
  }
  if (absl::IsPermissionDenied(address.status())) return Note(name, std::string(address.status().message()));
  if (!address.ok()) return Bad(name, std::string(address.status().message()), "see docs/security.md");
  const std::string at = absl::StrCat(address->endpoint, " (from ", address->found, ")");
  const absl::StatusOr<std::unique_ptr<wire::Client>> client = ConnectTo(*address);
  if (!client.ok())
    return Bad(name, absl::StrCat(at, ": ", std::string(client.status().message())), "see docs/security.md");
  // The key determines the role. Without keys, the reader's role is enough.
  const absl::StatusOr<wire::KeyPair> own =
      address->security.own_key.empty() ? absl::NotFoundError("") : wire::ReadSecretKey(address->security.own_key);
  const Hello::Role role = own.ok() && own->role == wire::Role::kOperator ? Hello::OPERATOR : Hello::READER;
  const Hello hello = wire::MakeHello(role, RandomInstance());
  const int64_t end = MonotonicNs() + timeout_ns;
  while (MonotonicNs() < end) {
    if ((*client)->Tick(MonotonicNs())) (*client)->Send(wire::Type::kHello, hello).IgnoreError();
    while (const std::optional<wire::Message> message = (*client)->Receive()) {
      Welcome welcome;
      if (message->header.type != wire::Type::kWelcome || !wire::DecodeBody(*message, &welcome).ok()) continue;
      if (!welcome.refused().empty())
        return Bad(name, absl::StrCat(at, " refuses this client: ", Printable(welcome.refused(), 200)),
                   "see docs/security.md");
      const std::string version = Printable(welcome.version(), 40);
      return Good(name, absl::StrCat(at, " responds, version ", version,
                                     version == LOCKSTEP_VERSION ? "" : " (this is " LOCKSTEP_VERSION ")"));
    }
    pollfd wait = {(*client)->fd(), POLLIN, 0};
    poll(&wait, 1, 100);
  }
  const std::string why = (*client)->last_error();
  return Bad(name, absl::StrCat(at, " does not respond", why.empty() ? "" : ": " + why),
             "check that it is running (lockstep collector), that the port is open and that it knows the key");
}

}  // namespace lockstep::doctor
