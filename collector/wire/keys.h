// CURVE key pairs, and their rights. A key file is text: "lockstep-key 1", then "role", "public" and (in secret files)
// "secret" lines, Z85. docs/security.md explains the files, and `lockstep keygen` creates them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::wire {

// The rights of a key's holder. Each role has only its own rights: an agent cannot request a dump, and a reader can
// change nothing.
enum class Role { kNone, kAgent, kRelay, kOperator, kReader, kCollector };

const char* RoleName(Role role);
absl::StatusOr<Role> RoleNamed(const std::string& name);

struct KeyPair {
  Role role = Role::kNone;
  std::string public_key;  // 40 characters, Z85
  std::string secret_key;  // empty in public files
};

absl::StatusOr<KeyPair> MakeKeyPair(Role role);
// Writes NAME.key (0600, with the secret) and NAME.pub into `folder`, which is created (0700) with missing parents.
// Never overwrites.
absl::Status WriteKeyPair(const std::string& folder, const std::string& name, const KeyPair& keys);
// Refuses secret files that belong to another user, or that anyone except the owner (or root) can read or write.
absl::StatusOr<KeyPair> ReadSecretKey(const std::string& path);
absl::StatusOr<KeyPair> ReadPublicKey(const std::string& path);
// Reads all *.pub files of a folder: returns the role of each public key. If a file is bad, returns an error that names
// it.
absl::StatusOr<std::map<std::string, Role>> ReadKnownKeys(const std::string& folder);

// How a program connects or listens, from options and environment.
struct Security {
  bool insecure = false;  // --insecure: no keys, with a warning
  std::string own_key;    // path of the secret key file
  // For clients: path of the collector's public key, or its 40 characters. Several, separated by commas, if fallbacks
  // have different keys.
  std::string server_key;
  std::string known_keys;  // for servers: folder of the admitted public keys
};

// Returns the keys that `server_key` names.
absl::StatusOr<std::vector<std::string>> ServerKeys(const Security& security);

// True for a socket in this host's file system, which answers only its own user and root. False for a port on loopback,
// because every user on the machine can reach it.
bool IsLocal(const std::string& endpoint);
// Without `insecure` or keys, only a local socket is allowed. Returns OK, or an error with the missing key and how to
// create it.
absl::Status CheckSecurity(const Security& security, const std::string& endpoint, bool server);

}  // namespace lockstep::wire
