#include "collector/wire/keys.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/small_file.h"

namespace lockstep::wire {
namespace {

constexpr char kFirstLine[] = "lockstep-key 1";
constexpr size_t kMostKeyFileBytes = 4096;
constexpr size_t kMostKeys = 65536;
constexpr struct {
  Role role;
  const char* name;
} kRoles[] = {{Role::kAgent, "agent"},
              {Role::kRelay, "relay"},
              {Role::kOperator, "operator"},
              {Role::kReader, "reader"},
              {Role::kCollector, "collector"}};

std::string Why() { return strerror(errno); }

// Reads a small file completely. If `secret` is set, no other user may be able to read it.
absl::StatusOr<std::string> ReadKeyFile(const std::string& path, bool secret) {
  // Follows symbolic links, because Kubernetes mounts secrets as links, and checks the file that they lead to.
  const UniqueFd fd = OpenToRead(path);
  if (!fd.ok()) {
    const std::string text = absl::StrCat("cannot read the key ", path, ": ", Why());
    return errno == ENOENT ? absl::NotFoundError(absl::StrCat(text, " (create keys with: lockstep keygen)"))
                           : absl::PermissionDeniedError(text);
  }
  struct stat status {};
  if (fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return absl::InvalidArgumentError(absl::StrCat("the key ", path, " is not a regular file"));
  if (secret && status.st_uid != geteuid() && status.st_uid != 0) {
    return absl::PermissionDeniedError(absl::StrCat("the secret key ", path, " belongs to user ", status.st_uid,
                                                    ", not to ", geteuid(), ": change its owner (chown)"));
  }
  if (secret && (status.st_mode & 077) != 0) {
    char mode[8];
    snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(status.st_mode) & 07777u);
    return absl::PermissionDeniedError(absl::StrCat("the secret key ", path, " can be read or written by others (mode ",
                                                    mode, "): run chmod 600 ", path,
                                                    ", and create a new pair if others may have seen it"));
  }
  return ReadWholeFile(fd.get(), path, kMostKeyFileBytes);
}

bool IsKey(absl::string_view text) {
  if (text.size() != 40) return false;
  uint8_t raw[32];
  const std::string terminated(text);
  return zmq_z85_decode(raw, terminated.c_str()) != nullptr;
}

absl::StatusOr<KeyPair> Parse(const std::string& path, const std::string& text, bool secret) {
  const auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("key ", path, ": ", what));
  };
  KeyPair keys;
  bool first = true;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (first) {
      if (line != kFirstLine) return bad("does not start with \"lockstep-key 1\"");
      first = false;
      continue;
    }
    if (line.empty() || line[0] == '#') continue;
    const std::pair<absl::string_view, absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    const absl::string_view value = absl::StripAsciiWhitespace(words.second);
    if (words.first == "role") {
      const absl::StatusOr<Role> role = RoleNamed(std::string(value));
      if (!role.ok()) return bad(std::string(role.status().message()));
      keys.role = *role;
    } else if (words.first == "public" || words.first == "secret") {
      if (!IsKey(value)) return bad(absl::StrCat("the ", words.first, " line does not contain a key of 40 characters"));
      (words.first == "public" ? keys.public_key : keys.secret_key) = std::string(value);
    }  // lines of newer versions are skipped
  }
  if (keys.role == Role::kNone || keys.public_key.empty()) return bad("has no role or no public line");
  if (secret && keys.secret_key.empty()) return bad("is a public key; the secret key (NAME.key) is needed here");
  if (!secret && !keys.secret_key.empty()) {
    return bad("contains a secret key; only public keys (NAME.pub) belong here. Others may have seen the secret key");
  }
  if (secret) {
    char derived[41] = {};
    if (zmq_curve_public(derived, keys.secret_key.c_str()) != 0 || keys.public_key != derived) {
      return bad("its public key does not match its secret key");
    }
  }
  return keys;
}

absl::Status WriteNew(const std::string& path, const std::string& text, mode_t mode) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (fd < 0) {
    if (errno == EEXIST) return absl::AlreadyExistsError(absl::StrCat(path, " exists; keys are never overwritten"));
    return absl::PermissionDeniedError(absl::StrCat("cannot write ", path, ": ", Why()));
  }
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       fchmod(fd, mode) == 0 && fsync(fd) == 0;
  const std::string why = Why();
  if (close(fd) == 0 && written) return absl::OkStatus();
  unlink(path.c_str());
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", why));
}

}  // namespace

const char* RoleName(Role role) {
  for (const auto& known : kRoles) {
    if (known.role == role) return known.name;
  }
  return "none";
}

absl::StatusOr<Role> RoleNamed(const std::string& name) {
  for (const auto& known : kRoles) {
    if (name == known.name) return known.role;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name, "\" is not a role: use agent, relay, operator, reader or collector"));
}

absl::StatusOr<KeyPair> MakeKeyPair(Role role) {
  char public_key[41], secret_key[41];
  if (zmq_has("curve") != 1 || zmq_curve_keypair(public_key, secret_key) != 0) {
    return absl::UnimplementedError("this libzmq was built without CURVE: install one that was built with libsodium");
  }
  return KeyPair{role, public_key, secret_key};
}

absl::Status WriteKeyPair(const std::string& folder, const std::string& name, const KeyPair& keys) {
  if (const absl::Status status = MakeFolder(folder); !status.ok()) return status;
  const std::string secret_path = absl::StrCat(folder, "/", name, ".key");
  const std::string public_path = absl::StrCat(folder, "/", name, ".pub");
  if (access(public_path.c_str(), F_OK) == 0) {
    return absl::AlreadyExistsError(absl::StrCat(public_path, " exists; keys are never overwritten"));
  }
  const std::string shared =
      absl::StrCat(kFirstLine, "\nrole ", RoleName(keys.role), "\npublic ", keys.public_key, "\n");
  absl::Status status = WriteNew(secret_path, absl::StrCat(shared, "secret ", keys.secret_key, "\n"), 0600);
  if (!status.ok()) return status;
  status = WriteNew(public_path, shared, 0644);
  if (!status.ok()) unlink(secret_path.c_str());
  return status;
}

absl::StatusOr<KeyPair> ReadSecretKey(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadKeyFile(path, true);
  return text.ok() ? Parse(path, *text, true) : text.status();
}

absl::StatusOr<KeyPair> ReadPublicKey(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadKeyFile(path, false);
  return text.ok() ? Parse(path, *text, false) : text.status();
}

absl::StatusOr<std::map<std::string, Role>> ReadKnownKeys(const std::string& folder) {
  std::vector<std::string> names = NamesIn(folder);
  if (names.empty() && errno != 0)
    return absl::NotFoundError(absl::StrCat("cannot read the folder of known keys ", folder, ": ", Why()));
  std::erase_if(names, [](const std::string& name) { return !absl::EndsWith(name, ".pub"); });
  if (names.size() > kMostKeys) names.resize(kMostKeys);
  std::map<std::string, Role> known;
  for (const std::string& name : names) {
    const absl::StatusOr<KeyPair> key = ReadPublicKey(absl::StrCat(folder, "/", name));
    if (!key.ok()) return key.status();
    const auto [entry, added] = known.emplace(key->public_key, key->role);
    if (!added && entry->second != key->role) {
      return absl::InvalidArgumentError(
          absl::StrCat("key ", folder, "/", name, ": the same key is also there with another role"));
    }
  }
  return known;
}

absl::StatusOr<std::vector<std::string>> ServerKeys(const Security& security) {
  std::vector<std::string> keys;
  for (absl::string_view item : absl::StrSplit(security.server_key, ',', absl::SkipWhitespace())) {
    item = absl::StripAsciiWhitespace(item);
    // A path of 40 characters may look like a key.
    if (IsKey(item) && access(std::string(item).c_str(), F_OK) != 0) {
      keys.emplace_back(item);
      continue;
    }
    const absl::StatusOr<KeyPair> key = ReadPublicKey(std::string(item));
    if (!key.ok()) return key.status();
    if (key->role != Role::kCollector && key->role != Role::kRelay) {
      return absl::InvalidArgumentError(absl::StrCat("key ", item, " is of role ", RoleName(key->role),
                                                     ": a key of role collector or relay is needed here"));
    }
    keys.push_back(key->public_key);
  }
  if (keys.empty()) return absl::InvalidArgumentError("no server key given");
  return keys;
}

bool IsLocal(const std::string& endpoint) {
  return absl::StartsWith(endpoint, "ipc://") || absl::StartsWith(endpoint, "inproc://");
}

absl::Status CheckSecurity(const Security& security, const std::string& endpoint, bool server) {
  const size_t colon = endpoint.rfind(':');
  const bool tcp = absl::StartsWith(endpoint, "tcp://") && colon > strlen("tcp://") && colon + 1 < endpoint.size();
  if (!tcp && !IsLocal(endpoint)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", endpoint, "' is not an endpoint such as tcp://ADDRESS:PORT or ipc://PATH"));
  }
  const bool any = !security.own_key.empty() || (server ? !security.known_keys.empty() : !security.server_key.empty());
  if (security.insecure) {
    if (!any) return absl::OkStatus();
    return absl::InvalidArgumentError("give either --insecure or keys");
  }
  if (!any && IsLocal(endpoint)) return absl::OkStatus();
  std::string missing;
  if (security.own_key.empty())
    missing = server ? "its own secret key" : "your own secret key (role agent, operator or reader)";
  if (server && security.known_keys.empty())
    absl::StrAppend(&missing, missing.empty() ? "" : " and ", "the folder of known public keys");
  if (!server && security.server_key.empty())
    absl::StrAppend(&missing, missing.empty() ? "" : " and ", "the collector's public key");
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(endpoint, IsLocal(endpoint) ? " with keys" : " can be reached by others", ": this needs ", missing,
                   ". Create keys with `lockstep keygen`, use ipc://PATH on one host, or give --insecure if nobody "
                   "else can reach the port"));
}

}  // namespace lockstep::wire
