// The keygen verb.
#include <cstdio>
#include <string>

#include "analyzer/settings/options.h"
#include "analyzer/util/printable.h"
#include "collector/wire/keys.h"

namespace {

using namespace lockstep::wire;

const char* WhatGoesWhere(Role role) {
  switch (role) {
    case Role::kCollector:
      return "%s.key stays on the collector's machine:  lockstep collector --key %s.key --known-keys FOLDER\n"
             "%s.pub goes to agents, relays and people:  --server-key %s.pub\n";
    case Role::kRelay:
      return "%s.key stays on the relay's machine:  lockstep collector --upstream ENDPOINT --key %s.key\n"
             "%s.pub goes into the collector's folder of known keys, and to the relay's agents:  --server-key %s.pub\n";
    case Role::kAgent:
      return "%s.key goes to the agents' machines, readable by the agent alone:  lockstep agent --key %s.key\n"
             "%s.pub goes into the folder of known keys of the collector or relay:  --known-keys FOLDER (%s.pub in "
             "it)\n";
    default:
      return "%s.key stays with its owner:  lockstep top --key %s.key\n"
             "%s.pub goes into the collector's folder of known keys:  --known-keys FOLDER (%s.pub in it)\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  const absl::StatusOr<lockstep::settings::ParsedOptions> options = lockstep::settings::Parse("keygen", argc, argv);
  if (const std::optional<int> status = lockstep::settings::Finished("keygen", options)) return *status;
  const auto usage = [&](const std::string& what) {
    return lockstep::settings::UsageError("keygen", options->Wrong(what));
  };
  if (!options->Given("role")) return usage("--role is missing");
  const absl::StatusOr<Role> role = RoleNamed(options->Text("role"));
  if (!role.ok()) return usage(std::string(role.status().message()));
  const std::string name = options->Given("name") ? options->Text("name") : options->Text("role");
  if (name.find('/') != std::string::npos || name[0] == '.') return usage("a name must not be a path: " + name);
  const std::string folder = options->operand().empty() ? "." : options->operand();
  const absl::StatusOr<KeyPair> keys = MakeKeyPair(*role);
  absl::Status status = keys.status();
  if (status.ok()) status = WriteKeyPair(folder, name, *keys);
  if (!status.ok()) return lockstep::settings::Complain("keygen", status.message(), 1);
  const std::string path = lockstep::Printable(folder == "." ? name : folder + "/" + name);
  printf("wrote %s.key (secret) and %s.pub, role %s, public key %s\n", path.c_str(), path.c_str(), RoleName(*role),
         keys->public_key.c_str());
  printf(WhatGoesWhere(*role), path.c_str(), path.c_str(), path.c_str(), path.c_str());
  return 0;
}
