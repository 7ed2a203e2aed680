// CURVE key pairs, and their rights. A key file is text: "lockstep-key 1", then "role", "public" and (in secret files)
// "secret" lines, Z85. docs/security.md explains the files, `lockstep keygen` makes them.
#ifndef LOCKSTEP_COLLECTOR_WIRE_KEYS_H_
#define LOCKSTEP_COLLECTOR_WIRE_KEYS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::wire {

// The rights of a key's holder. Each role has only its own rights: an agent cannot trigger a dump, a reader can only
// look.
enum class Role { kNone, kAgent, kRelay, kOperator, kReader, kCollector };

const char* RoleName(Role role);
absl::StatusOr<Role> RoleNamed(const std::string& name);

struct KeyPair {
  Role role = Role::kNone;
  std::string public_key;  // 40 characters, Z85
  std::string secret_key;  // empty in public files
};

absl::StatusOr<KeyPair> MakeKeyPair(Role role);
// Writes NAME.key (0600, with the secret) and NAME.pub into `folder` (made 0700, and those above it). Never overwrites.
absl::Status WriteKeyPair(const std::string& folder, const std::string& name, const KeyPair& keys);
// Refuses secret files of another owner, or that anyone but the owner (or root) may read or write.
absl::StatusOr<KeyPair> ReadSecretKey(const std::string& path);
absl::StatusOr<KeyPair> ReadPublicKey(const std::string& path);
// All *.pub files of a folder: public key -> role. One bad file is an error that names it.
absl::StatusOr<std::map<std::string, Role>> ReadKnownKeys(const std::string& folder);

// How a program is to reach, or to be reached: from options and environment.
struct Security {
  bool insecure = false;  // --insecure: no keys, with a warning
  std::string own_key;    // path of the secret key file
  // Clients: path of the collector's public key, or the 40 characters themselves; where fallbacks have other keys,
  // several, with commas between them.
  std::string server_key;
  std::string known_keys;  // servers: folder of the public keys that are let in
};

// The keys that `server_key` names.
absl::StatusOr<std::vector<std::string>> ServerKeys(const Security& security);

// A socket in this host's file system, which answers its own user and root. A port on loopback is none: every user of
// the machine reaches it.
bool IsLocal(const std::string& endpoint);
// Without `insecure` or keys only a local socket starts. OK, or the missing key and how to make it.
absl::Status CheckSecurity(const Security& security, const std::string& endpoint, bool server);

}  // namespace lockstep::wire

#endif  // LOCKSTEP_COLLECTOR_WIRE_KEYS_H_
