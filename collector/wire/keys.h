// CURVE key pairs, and their rights. A key file is text: "lockstep-key 1", then "role", "public" and (in secret files)
// "secret" lines, Z85. docs/security.md explains the files, and `lockstep keygen` creates them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::wire {

// The rights of a key's holder; kNone for an unknown key. An agent cannot send requests; a reader can change nothing.
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
// Refuses files of users other than this one and root, and files with any permission for group or others.
absl::StatusOr<KeyPair> ReadSecretKey(const std::string& path);
absl::StatusOr<KeyPair> ReadPublicKey(const std::string& path);
// Returns the role of each public key in a folder's *.pub files (at most 65,536). If a file is invalid, or repeats a
// key with another role, returns an error with its name.
absl::StatusOr<std::map<std::string, Role>> ReadKnownKeys(const std::string& folder);

// How a program connects or listens, from options and environment.
struct Security {
  bool insecure = false;  // --insecure: no keys, with a warning
  std::string own_key;    // path of the secret key file
  // For clients: path of the collector's public key, or the key's 40 characters. If fallbacks have different keys, a
  // list separated by commas.
  std::string server_key;
  std::string known_keys;  // for servers: folder of the admitted public keys
};

// Returns the public keys in `server_key`; an error if there is none, or if a file has another role than collector or
// relay.
absl::StatusOr<std::vector<std::string>> ServerKeys(const Security& security);

// True for ipc:// and inproc://: such sockets answer only their own user and root. False for a port on loopback, which
// every user on the machine can reach.
bool IsLocal(const std::string& endpoint);
// Checks the endpoint and its keys. Without keys, only a local socket is allowed, unless `insecure` is set. The error
// names the missing key and how to create it.
absl::Status CheckSecurity(const Security& security, const std::string& endpoint, bool server);

}  // namespace lockstep::wire
