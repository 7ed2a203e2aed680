// The keygen verb.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "analyzer/settings/merge.h"
#include "collector/wire/keys.h"

namespace {

using namespace lockstep::wire;

constexpr char kHelp[] =
    "Usage: lockstep keygen --role ROLE [--name NAME] [FOLDER]\n"
    "\n"
    "Writes a key pair, NAME.key (secret, mode 600) and NAME.pub, into FOLDER (default: the current one; made if it "
    "is\n"
    "not there) and says what goes where. Never overwrites a key.\n"
    "\n"
    "  --role ROLE   collector  a collector's or a relay's own key, which the others are to know it by\n"
    "                relay      a relay's key: it takes agents and passes on what they send\n"
    "                agent      one host's agent, or a whole fleet's: reports, and can ask for nothing\n"
    "                operator   people who may take dumps (lockstep dump, top)\n"
    "                reader     people who may only look (lockstep top)\n"
    "  --name NAME   name of the files (default: the role)\n";

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

int Usage(const std::string& what) {
  fprintf(stderr, "lockstep keygen: %s (lockstep keygen --help)\n", what.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::string role_name, name, folder;
  const absl::StatusOr<lockstep::settings::Merged> merged =
      lockstep::settings::Merge("keygen", {argv + 1, argv + argc});
  if (!merged.ok()) return Usage(std::string(merged.status().message()));
  lockstep::settings::Tell(*merged);
  const std::vector<std::string>& words = merged->words;
  for (size_t i = 0; i < words.size(); i++) {
    const std::string& word = words[i];
    if (word == "--help" || word == "-h") {
      fputs(kHelp, stdout);
      return 0;
    }
    if (word == "--role" || word == "--name") {
      if (i + 1 == words.size()) return Usage(word + " needs a value");
      (word == "--role" ? role_name : name) = words[++i];
    } else if (word.compare(0, 7, "--role=") == 0 || word.compare(0, 7, "--name=") == 0) {
      (word[2] == 'r' ? role_name : name) = word.substr(7);
    } else if (!word.empty() && word[0] == '-') {
      return Usage("unknown option " + word);
    } else if (!folder.empty()) {
      return Usage("one folder, please: " + folder + " or " + word);
    } else {
      folder = word;
    }
  }
  if (role_name.empty()) return Usage("--role is missing");
  const absl::StatusOr<Role> role = RoleNamed(role_name);
  if (!role.ok()) return Usage(std::string(role.status().message()));
  if (name.empty()) name = role_name;
  if (name.find('/') != std::string::npos || name[0] == '.') return Usage("a name is no path: " + name);
  if (folder.empty()) folder.push_back('.');
  const absl::StatusOr<KeyPair> keys = MakeKeyPair(*role);
  absl::Status status = keys.status();
  if (status.ok()) status = WriteKeyPair(folder, name, *keys);
  if (!status.ok()) {
    fprintf(stderr, "lockstep keygen: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  const std::string path = folder == "." ? name : folder + "/" + name;
  printf("wrote %s.key (secret) and %s.pub, role %s, public key %s\n", path.c_str(), path.c_str(), RoleName(*role),
         keys->public_key.c_str());
  printf(WhatGoesWhere(*role), path.c_str(), path.c_str(), path.c_str(), path.c_str());
  return 0;
}
