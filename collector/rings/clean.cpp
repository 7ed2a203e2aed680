#include "collector/rings/clean.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/printable.h"
#include "analyzer/util/system.h"
#include "analyzer/util/unique_fd.h"
#include "collector/rings/memory_ring.h"
#include "collector/rings/owner.h"
#include "recorder/ring/reader.h"

namespace lockstep {
namespace {

// In seconds. An unreadable ring of this age counts as abandoned, because creating a ring takes a millisecond.
constexpr int64_t kUnfinishedAfter = 3600;

// Returns the seconds since the last record, by the recording's wall clock, because the ring may be from an earlier
// boot.
int64_t QuietFor(const ring::Snapshot& snapshot, int64_t modified) {
  int64_t last = std::max(snapshot.process.created_mono_ns, snapshot.process.stopped_ns);
  for (const ring::CommSnapshot& comm : snapshot.comms)
    last = std::max({last, comm.issued_ns, comm.ended_ns, comm.ready_ns});
  for (const ring::ThreadSnapshot& thread : snapshot.threads) last = std::max(last, thread.last_call_ns);
  const int64_t offset = snapshot.process.created_real_ns - snapshot.process.created_mono_ns;
  const int64_t at = snapshot.process.created_real_ns > 0 ? (last + offset) / 1'000'000'000 : modified;
  return time(nullptr) - at;
}

std::string What(const ring::ProcessInfo& process) {
  std::string text;
  if (process.rank >= 0) text += "rank " + std::to_string(process.rank) + " of ";
  return Printable(text + "job " + (process.job.empty() ? "?" : process.job));
}

class Cleaner {
 public:
  Cleaner(const CleanOptions& options, FILE* out, Cleaned* cleaned) : options_(options), out_(out), cleaned_(cleaned) {}

  void Folder(int fd, const std::string& path, int depth) {
    for (const std::string& name : NamesIn(fd)) {
      const std::string shown = Printable(absl::StrCat(path, "/", name));
      struct stat info {};
      if (fstatat(fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
      const bool is_ring = name.size() > 5 && name.compare(name.size() - 5, 5, ".ring") == 0;
      if (S_ISDIR(info.st_mode) && depth == 0) {
        const UniqueFd inner(openat(fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!inner.ok()) continue;
        const int before = cleaned_->removed;
        Folder(inner.get(), absl::StrCat(path, "/", name), 1);
        // Removes a folder that is empty now. A recorder that has just created it creates it again or reports the
        // reason.
        if (!options_.dry_run && MayGo(fd, info.st_uid) && cleaned_->removed > before)
          unlinkat(fd, name.c_str(), AT_REMOVEDIR);
      } else if (is_ring) {
        Ring(fd, name, shown, info);
      }
    }
  }

 private:
  void Keep(const std::string& shown, const std::string& why) {
    ++cleaned_->kept;
    if (out_ != nullptr) fprintf(out_, "kept %s: %s\n", shown.c_str(), why.c_str());
  }

  // Returns whether a file of this owner may be removed: a file of this user or, with any_owner, of the folder's owner,
  // who could also remove it.
  bool MayGo(int folder, uid_t owner) const {
    if (!options_.any_owner) return owner == geteuid();
    struct stat info {};
    return fstat(folder, &info) == 0 && info.st_uid == owner;
  }

  void Ring(int folder, const std::string& name, const std::string& shown, const struct stat& listed) {
    const bool in_memory = S_ISLNK(listed.st_mode) && IsMemoryRingLink(folder, name);
    if (!S_ISREG(listed.st_mode) && !in_memory) return Keep(shown, "not a regular file");
    if (!MayGo(folder, listed.st_uid)) return Keep(shown, "it belongs to another user");
    if (in_memory) return Link(folder, name, shown, listed);
    const UniqueFd fd(openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat info {};
    if (!fd.ok() || fstat(fd.get(), &info) != 0 || info.st_ino != listed.st_ino || info.st_dev != listed.st_dev) {
      return Keep(shown, "it cannot be opened");
    }
    ring::Snapshot snapshot;
    ring::ReadOptions read;
    read.digest_only = true;
    std::string error, why;
    bool remove = false;
    int64_t quiet_s = 0;
    if (!ring::ReadRing(fd.get(), read, &snapshot, &error)) {
      quiet_s = time(nullptr) - info.st_mtime;
      remove = quiet_s > std::max(kUnfinishedAfter, options_.older_than_s);
      why = remove ? "its recorder never finished creating it" : Printable(error);
    } else {
      const RingOwnerFacts owner = FindRingOwner(snapshot.process, {info.st_dev, info.st_ino, name});
      remove = owner.owner == RingOwner::kGone || owner.owner == RingOwner::kReplaced;
      why = What(snapshot.process) + ", " + owner.text;
      quiet_s = QuietFor(snapshot, info.st_mtime);
      // time() lags behind the recorder's clock by up to a tick, and both can be set back, so an age may be negative.
      if (remove && options_.older_than_s > 0 && quiet_s < options_.older_than_s) {
        remove = false;
        why += ", but only recently";
      }
    }
    if (!remove) return Keep(shown, why);
    Remove(folder, name, shown, info, quiet_s, why);
  }

  // Handles a link to a ring in its process's memory. The link itself takes no space.
  void Link(int folder, const std::string& name, const std::string& shown, const struct stat& info) {
    const int64_t quiet_s = time(nullptr) - info.st_mtime;
    if (OpenMemoryRing(folder, name).ok()) return Keep(shown, "a ring in the memory of a running process");
    if (quiet_s <= std::max(kUnfinishedAfter, options_.older_than_s))
      return Keep(shown, "a ring in the memory of a process that cannot be seen from here");
    Remove(folder, name, shown, info, quiet_s, "its ring disappeared with its process");
  }

  void Remove(int folder, const std::string& name, const std::string& shown, const struct stat& info, int64_t quiet_s,
              const std::string& why) {
    // Checks that the file is still the same.
    struct stat again {};
    const bool same = fstatat(folder, name.c_str(), &again, AT_SYMLINK_NOFOLLOW) == 0 && again.st_ino == info.st_ino &&
                      again.st_dev == info.st_dev;
    if (!options_.dry_run && (!same || unlinkat(folder, name.c_str(), 0) != 0)) {
      ++cleaned_->failed;
      if (out_ != nullptr)
        fprintf(out_, "cannot remove %s: %s\n", shown.c_str(),
                same ? strerror(errno) : "it has changed in the meantime");
      return;
    }
    ++cleaned_->removed;
    cleaned_->bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    cleaned_->dead.push_back({quiet_s, static_cast<uint64_t>(info.st_blocks) * 512});
    if (out_ != nullptr)
      fprintf(out_, "%s %s: %s\n", options_.dry_run ? "would remove" : "removed", shown.c_str(), why.c_str());
  }

  const CleanOptions& options_;
  FILE* out_;
  Cleaned* cleaned_;
};

}  // namespace

bool CleanRings(const CleanOptions& options, FILE* out, Cleaned* cleaned, std::string* error) {
  std::string folder = options.folder;
  if (folder.empty()) folder = EnvironmentValue("LOCKSTEP_DIR");
  if (folder.empty()) folder = "/dev/shm/lockstep-" + std::to_string(geteuid());
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.ok()) {
    if (errno == ENOENT && options.folder.empty()) return true;  // nothing was ever recorded
    const bool link = errno == ELOOP || errno == ENOTDIR;
    *error =
        Printable(folder) + ": " + (link ? "is not a folder, or is a link: give the folder itself" : strerror(errno));
    return false;
  }
  Cleaner(options, out, cleaned).Folder(fd.get(), folder, 0);
  return true;
}

}  // namespace lockstep
