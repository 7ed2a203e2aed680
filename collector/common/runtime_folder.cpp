#include "collector/common/runtime_folder.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/system.h"

namespace lockstep {
namespace {

constexpr char kFile[] = "/collector";
constexpr size_t kMostBytes = 8192;

// Folders that every user trusts, because only root can create a folder in /run. The collector's folder comes first,
// because an agent may know only a relay.
constexpr const char* kServices[] = {"/run/lockstep-collector", "/run/lockstep"};

// Checks that the folder is not a link, and that only its owner may write there.
absl::Status CheckFolder(const std::string& path, struct stat* info) {
  if (lstat(path.c_str(), info) != 0) {
    return errno == ENOENT ? absl::NotFoundError(absl::StrCat(path, " does not exist"))
                           : absl::UnavailableError(absl::StrCat(path, ": ", strerror(errno)));
  }
  if (!S_ISDIR(info->st_mode)) return absl::FailedPreconditionError(absl::StrCat(path, " is not a folder; remove it"));
  if ((info->st_mode & 0022) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("others may write to ", path, "; chmod 700 it"));
  }
  return absl::OkStatus();
}

absl::Status Foreign(const std::string& path, uid_t owner) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, " belongs to user ", owner, ", not to ", geteuid(), "; set LOCKSTEP_RUNTIME_DIR"));
}

}  // namespace

std::vector<std::string> ServiceFolders() { return {std::begin(kServices), std::end(kServices)}; }

std::string RuntimeFolderPath() {
  if (std::string path = EnvironmentValue("LOCKSTEP_RUNTIME_DIR"); !path.empty()) return path;
  if (geteuid() == 0) return "/run/lockstep";
  if (std::string path = EnvironmentValue("XDG_RUNTIME_DIR"); !path.empty()) return path + "/lockstep";
  return absl::StrCat("/tmp/lockstep-", geteuid());
}

absl::Status CheckPrivateFolder(const std::string& path) {
  struct stat info {};
  const absl::Status status = CheckFolder(path, &info);
  return status.ok() && info.st_uid != geteuid() ? Foreign(path, info.st_uid) : status;
}

absl::StatusOr<std::string> MakeRuntimeFolder() {
  std::string path = RuntimeFolderPath();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (mkdir(path.c_str(), path == "/run/lockstep" ? 0755 : 0700) != 0 && errno != EEXIST) {
    return absl::UnavailableError(absl::StrCat("cannot create the folder ", path, ": ", strerror(errno),
                                               "; set LOCKSTEP_RUNTIME_DIR to another folder"));
  }
  if (absl::Status status = CheckPrivateFolder(path); !status.ok()) return status;
  return path;
}

absl::StatusOr<std::string> SocketIn(const std::string& folder, const std::string& name) {
  const std::string path = absl::StrCat(folder, "/", name);
  if (path.size() < sizeof(sockaddr_un::sun_path)) return "ipc://" + path;
  return absl::InvalidArgumentError(
      absl::StrCat("the path of the socket is too long: ", path, "; set LOCKSTEP_RUNTIME_DIR to a shorter one"));
}

absl::Status WriteCollectorPlace(const std::string& folder, const CollectorPlace& place) {
  std::string text = absl::StrCat("endpoint ", place.endpoint, "\n");
  if (!place.server_key.empty()) absl::StrAppend(&text, "server-key ", place.server_key, "\n");
  struct stat info {};
  const bool open_to_all = stat(folder.c_str(), &info) == 0 && (info.st_mode & 0005) == 0005;
  return WriteFileSafely(folder + kFile, text, open_to_all ? 0644 : 0600);
}

absl::StatusOr<CollectorPlace> ReadCollectorPlace(const std::string& folder) {
  struct stat info {};
  if (absl::Status status = CheckFolder(folder, &info); !status.ok()) return status;
  const bool service =
      std::any_of(std::begin(kServices), std::end(kServices), [&](const char* known) { return folder == known; });
  if (info.st_uid != geteuid() && info.st_uid != 0 && !service) return Foreign(folder, info.st_uid);
  const std::string path = folder + kFile;
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMostBytes, Links::kRefuse);
  if (absl::IsPermissionDenied(text.status()))
    return absl::PermissionDeniedError(absl::StrCat(path, " can be read only by user ", info.st_uid));
  if (absl::IsNotFound(text.status())) return absl::NotFoundError(absl::StrCat(path, " does not exist"));
  if (!text.ok()) return absl::FailedPreconditionError(text.status().message());
  CollectorPlace place;
  place.user = info.st_uid;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (absl::ConsumePrefix(&line, "endpoint ")) place.endpoint = std::string(line);
    if (absl::ConsumePrefix(&line, "server-key ")) place.server_key = std::string(line);
  }
  if (place.endpoint.empty()) return absl::FailedPreconditionError(absl::StrCat(path, " has no endpoint; remove it"));
  return place;
}

void RemoveCollectorPlace(const std::string& folder, const std::string& endpoint) {
  const absl::StatusOr<CollectorPlace> place = ReadCollectorPlace(folder);
  if (place.ok() && place->endpoint == endpoint) unlink((folder + kFile).c_str());
}

}  // namespace lockstep
