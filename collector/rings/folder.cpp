#include "collector/rings/folder.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/system.h"
#include "analyzer/util/unique_fd.h"
#include "recorder/ring/layout.h"
#include "recorder/ring/settings.h"

namespace lockstep {
namespace {

constexpr char kPrefix[] = "lockstep-run-";
constexpr uint64_t kLeastFree = 16 * ring::kMinFileBytes;  // a ring takes at most a sixteenth of the free space

void RemoveTree(int parent, const char* name, int depth) {
  if (unlinkat(parent, name, 0) == 0 || depth > 8) return;
  const UniqueFd fd(openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.ok()) return;
  for (const std::string& child : NamesIn(fd.get())) RemoveTree(fd.get(), child.c_str(), depth + 1);
  unlinkat(parent, name, AT_REMOVEDIR);
}

}  // namespace

void RemoveRingFolder(const std::string& path) {
  if (path.empty()) return;
  RemoveTree(AT_FDCWD, path.c_str(), 0);
}

int SweepRingFolders(const std::string& parent, int min_age_seconds) {
  int removed = 0;
  for (const std::string& name : NamesIn(parent)) {
    if (name.rfind(kPrefix, 0) != 0) continue;
    const std::string path = absl::StrCat(parent, "/", name);
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd.ok()) continue;
    struct stat info {};
    // The minimum age protects a folder whose owner has not locked it yet.
    if (fstat(fd.get(), &info) == 0 && info.st_uid == geteuid() && time(nullptr) - info.st_mtime >= min_age_seconds &&
        flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      RemoveTree(AT_FDCWD, path.c_str(), 0);
      ++removed;
    }
  }
  return removed;
}

absl::StatusOr<RingFolder> MakeRingFolderUnder(const std::string& parent, const ParentNeeds& needs) {
  struct statfs info {};
  if (statfs(parent.c_str(), &info) != 0) {
    return absl::UnavailableError(absl::StrCat(parent, ": ", strerror(errno)));
  }
  if (needs.tmpfs && info.f_type != TMPFS_MAGIC && info.f_type != RAMFS_MAGIC) {
    return absl::UnavailableError(absl::StrCat(parent, " is not in memory (not a tmpfs)"));
  }
  const uint64_t free_bytes = static_cast<uint64_t>(info.f_bavail) * static_cast<uint64_t>(info.f_bsize);
  // A ramfs, and a tmpfs without a limit, report no size.
  if (needs.room && info.f_blocks != 0 && free_bytes < kLeastFree) {
    return absl::ResourceExhaustedError(absl::StrCat(parent, " is full (", free_bytes / 1024, " KiB free)"));
  }
  char real[PATH_MAX];
  if (realpath(parent.c_str(), real) == nullptr) {
    return absl::UnavailableError(absl::StrCat(parent, ": ", strerror(errno)));
  }
  RingFolder folder;
  std::string name = absl::StrCat(real, "/", kPrefix, geteuid(), "-XXXXXX");
  if (name.size() > ring::kMostFolderPath) {
    return absl::InvalidArgumentError(absl::StrCat(parent, ": the path of a ring folder in it would be longer than ",
                                                   ring::kMostFolderPath, " characters; choose another folder"));
  }
  if (mkdtemp(name.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat(parent, " cannot be written: ", strerror(errno)));
  }
  folder.path = name;
  folder.lock_fd = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder.lock_fd < 0 || flock(folder.lock_fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (folder.lock_fd >= 0) close(folder.lock_fd);
    RemoveRingFolder(name);
    return absl::UnavailableError(absl::StrCat(name, " cannot be locked: ", strerror(error)));
  }
  return folder;
}

absl::StatusOr<RingFolder> MakeRingFolder(const std::string& wanted) {
  constexpr int kSweepAgeSeconds = 60;
  if (!wanted.empty()) {
    absl::StatusOr<RingFolder> folder = MakeRingFolderUnder(wanted, {});
    if (folder.ok()) {
      SweepRingFolders(wanted, kSweepAgeSeconds);
      return folder;
    }
    return absl::UnavailableError(absl::StrCat("LOCKSTEP_DIR: ", folder.status().message()));
  }
  const std::string parents[] = {"/dev/shm", EnvironmentValue("TMPDIR"), "/tmp"};
  for (const std::string& parent : parents) {
    if (!parent.empty()) SweepRingFolders(parent, kSweepAgeSeconds);
  }
  std::string tried;
  for (const bool room : {true, false}) {
    tried.clear();
    for (const std::string& parent : parents) {
      if (parent.empty()) continue;
      absl::StatusOr<RingFolder> folder = MakeRingFolderUnder(parent, {.tmpfs = true, .room = room});
      if (folder.ok()) return folder;
      absl::StrAppend(&tried, tried.empty() ? "" : "; ", folder.status().message());
    }
  }
  return absl::UnavailableError(tried);
}

}  // namespace lockstep
