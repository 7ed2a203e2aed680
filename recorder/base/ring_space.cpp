#include "recorder/base/ring_space.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "recorder/base/clock.h"
#include "recorder/base/directory.h"
#include "recorder/base/sys.h"
#include "recorder/ring/layout.h"

namespace lockstep::recorder {
namespace {

constexpr uint64_t kPart = 16;
constexpr uint64_t kUsualLocalRanks = 8;
constexpr int kMostDepth = 4;  // FILE SYSTEM/lockstep-slurm/HOST/JOB.RESTART/x.ring
constexpr int kMostEntries = 65536;
constexpr uint32_t kMostStrangers = 64;
constexpr uint64_t kMostNs = 20'000'000;
constexpr char kFolderPrefix[] = "lockstep-";

bool IsSame(const struct stat& a, const struct stat& b) noexcept {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

uint64_t PowerWithin(uint64_t bytes) noexcept {
  uint64_t power = 1;
  while (power <= bytes / 2) power *= 2;
  return power;
}

// Adds up the sizes of all rings on a file system except one.
class Rings {
 public:
  Rings(long top, long job, long own) noexcept : top_fd_(top) {
    Sys(SYS_fstat, top, &top_);
    Sys(SYS_fstat, job, &job_);
    Sys(SYS_fstat, own, &own_);
  }

  // Counts the rings in the folders lockstep-* at the root of the file system, and in `top` wherever that is.
  void Count() noexcept {
    all_ = before_ = of_job_ = strangers_ = 0;
    entries_ = 0;
    seen_top_ = false;
    const long root = OpenRoot();
    if (root >= 0) {
      struct stat info {};
      if (Sys(SYS_fstat, root, &info) == 0 && !IsSame(info, top_)) Folder(root, 0, true);
      Sys(SYS_close, root);
    }
    if (!seen_top_) Folder(top_fd_, 1, false);
  }

  uint64_t all() const { return all_; }
  // Bytes of the rings with smaller inode numbers: an order on which all processes agree.
  uint64_t before() const { return before_; }
  uint64_t of_job() const { return of_job_; }
  uint64_t strangers() const { return strangers_; }  // the number of other users whose rings cannot be counted

 private:
  long OpenRoot() const noexcept {
    struct stat here {
    }, above{};
    long fd = Sys(SYS_openat, top_fd_, ".", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0 || Sys(SYS_fstat, fd, &here) != 0) return fd;
    for (int level = 0; level < 64; ++level) {
      const long parent = Sys(SYS_openat, fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
      if (parent < 0) break;
      if (Sys(SYS_fstat, parent, &above) != 0 || above.st_dev != here.st_dev || above.st_ino == here.st_ino) {
        Sys(SYS_close, parent);
        break;
      }
      here = above;
      Sys(SYS_close, fd);
      fd = parent;
    }
    const long root = Sys(SYS_openat, fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    Sys(SYS_close, fd);
    return root;
  }

  void Folder(long fd, int depth, bool is_root) noexcept {
    struct stat info {};
    if (depth >= kMostDepth || Sys(SYS_fstat, fd, &info) != 0) return;
    if (IsSame(info, top_)) seen_top_ = true;
    const bool of_job = IsSame(info, job_);
    alignas(8) static char buffers[kMostDepth][2048];  // only one thread at a time is in this function
    Directory directory(fd, buffers[depth], sizeof(buffers[depth]));
    while (const DirectoryEntry* entry = directory.Next()) {
      if (++entries_ > kMostEntries) return;
      const char* name = entry->name;
      if (name[0] == '.' || (is_root && strncmp(name, kFolderPrefix, sizeof(kFolderPrefix) - 1) != 0)) continue;
      const size_t length = strlen(name);
      if (length > 5 && strcmp(name + length - 5, ".ring") == 0) {
        Ring(fd, name, of_job);
      } else if (entry->type == 4 /* DT_DIR */ || entry->type == 0) {
        const long inner = Sys(SYS_openat, fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0);
        if (inner >= 0) {
          Folder(inner, depth + 1, false);
          Sys(SYS_close, inner);
        } else if (inner == -EACCES && is_root) {
          Stranger(fd, name);
        }
      }
    }
  }

  void Ring(long folder, const char* name, bool of_job) noexcept {
    struct stat info {};
    if (Sys(SYS_newfstatat, folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) return;
    if (info.st_dev != own_.st_dev || info.st_ino == own_.st_ino) return;
    // The sum of 65536 such values cannot overflow.
    const uint64_t bytes = info.st_size < 0 ? 0
                           : static_cast<uint64_t>(info.st_size) < ring::kMaxFileBytes
                               ? static_cast<uint64_t>(info.st_size)
                               : uint64_t{ring::kMaxFileBytes};
    all_ += bytes;
    if (info.st_ino < own_.st_ino) before_ += bytes;
    if (of_job) of_job_ += bytes;
  }

  // A folder counts only if it belongs to the user in its name, not if another user created it.
  void Stranger(long root, const char* name) noexcept {
    struct stat info {};
    if (Sys(SYS_newfstatat, root, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return;
    char usual[32], of_run[32];  // the recorder's default folder, and the one that `lockstep run` makes
    snprintf(usual, sizeof(usual), "%s%u", kFolderPrefix, info.st_uid);
    const int length = snprintf(of_run, sizeof(of_run), "%srun-%u-", kFolderPrefix, info.st_uid);
    if (strcmp(name, usual) != 0 && strncmp(name, of_run, static_cast<size_t>(length)) != 0) return;
    for (uint32_t i = 0; i < strangers_; ++i) {
      if (stranger_[i] == info.st_uid) return;
    }
    if (strangers_ < kMostStrangers) stranger_[strangers_++] = info.st_uid;
  }

  const long top_fd_;
  struct stat top_ {
  }, job_{}, own_{};
  uint64_t all_ = 0, before_ = 0, of_job_ = 0;
  uint32_t strangers_ = 0;
  uint32_t stranger_[kMostStrangers];
  int entries_ = 0;
  bool seen_top_ = false;
};

// Reserves every page now. A hole in a full tmpfs would later raise SIGBUS.
long Reserve(long fd, uint64_t bytes) noexcept {
  const long result = Sys(SYS_fallocate, fd, 0, 0L, static_cast<long>(bytes));
  if (result != -EOPNOTSUPP && result != -ENOSYS) return result;
  static const char kZeros[ring::kPage] = {};
  for (uint64_t at = 0; at < bytes; at += sizeof(kZeros)) {
    const long written = Sys(SYS_pwrite64, fd, kZeros, sizeof(kZeros), static_cast<long>(at));
    if (written != static_cast<long>(sizeof(kZeros))) return written < 0 ? written : -ENOSPC;
  }
  return 0;
}

}  // namespace

LOCKSTEP_COLD RingShare ReserveShare(long top, long job, long fd, uint64_t wanted, int32_t local_ranks) noexcept {
  RingShare share;
  struct statfs system {};
  // A tmpfs without a size limit reports no size.
  if (Sys(SYS_fstatfs, job, &system) != 0 || system.f_blocks == 0) {
    share.budget = UINT64_MAX;
    share.bytes = Reserve(fd, wanted) == 0 ? wanted : 0;
    return share;
  }
  const auto block = static_cast<uint64_t>(system.f_bsize);
  Rings rings(top, job, fd);
  rings.Count();
  const uint64_t size = static_cast<uint64_t>(system.f_blocks) * block;
  const uint64_t room = static_cast<uint64_t>(system.f_bavail) * block + rings.all();
  share.budget = (room < size ? room : size) / kPart / (1 + rings.strangers());
  // The parts for this job's ranks include the rings that they already have. If the launcher does not report the number
  // of ranks, all rings count as taken.
  const uint64_t taken = local_ranks > 0 ? rings.all() - rings.of_job() : rings.all();
  const uint64_t left = share.budget > taken ? share.budget - taken : 0;
  const uint64_t part = left / (local_ranks > 0 ? static_cast<uint64_t>(local_ranks) : kUsualLocalRanks);
  uint64_t bytes = PowerWithin(part < wanted ? part : wanted);
  if (bytes < ring::kMinFileBytes) bytes = ring::kMinFileBytes;
  const uint64_t until = MonotonicNs() + kMostNs;
  bool fits = false;
  // ftruncate announces the size to other processes before any space is taken. No process takes space until everything
  // that it counts fits; until then, sizes only shrink.
  while (Sys(SYS_ftruncate, fd, static_cast<long>(bytes)) == 0) {
    rings.Count();
    share.others = rings.all();
    fits = rings.all() + bytes <= share.budget;
    if (fits) break;
    if (bytes > ring::kMinFileBytes) {
      const uint64_t rest = share.budget > rings.all() ? PowerWithin(share.budget - rings.all()) : 0;
      bytes = rest < ring::kMinFileBytes ? uint64_t{ring::kMinFileBytes} : rest < bytes / 2 ? rest : bytes / 2;
      continue;
    }
    // Processes that come later in the order give up, which makes room for the others.
    if (rings.before() + bytes > share.budget || MonotonicNs() > until) break;
    Sys(SYS_sched_yield);
  }
  if (fits && Reserve(fd, bytes) == 0) share.bytes = bytes;
  return share;
}

LOCKSTEP_COLD long MakeMemoryFile(const char* name, uint64_t bytes) noexcept {
  constexpr long kCloseOnExec = 1, kNoExec = 8;  // MFD_CLOEXEC and MFD_NOEXEC_SEAL (Linux 6.3)
  long fd = Sys(SYS_memfd_create, name, kCloseOnExec | kNoExec);
  if (fd == -EINVAL) fd = Sys(SYS_memfd_create, name, kCloseOnExec);
  if (fd < 0) return fd;
  // The descriptor stays open. A high number keeps it out of the way of programs that rely on low ones.
  const long high = Sys(SYS_fcntl, fd, static_cast<long>(F_DUPFD_CLOEXEC), 256L);
  if (high >= 0) {
    Sys(SYS_close, fd);
    fd = high;
  }
  Sys(SYS_fchmod, fd, 0600L);  // memfd_create makes the file accessible to everybody
  const long result = Reserve(fd, bytes);
  if (result == 0) return fd;
  Sys(SYS_close, fd);
  return result;
}

}  // namespace lockstep::recorder
