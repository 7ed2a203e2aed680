#include "recorder/base/old_rings.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "recorder/base/clock.h"
#include "recorder/base/directory.h"
#include "recorder/base/sys.h"
#include "recorder/ring/snapshot.h"

namespace lockstep::recorder {
namespace {

using ring::Header;

constexpr char kReason[] = "the process started another program (exec), which records in a new ring";
constexpr int kMostFiles = 8192;

// Returns the length of "<host>.<pid>." in the new ring's name. The old ring's name must begin with the same text.
size_t CommonPrefix(const char* name) noexcept {
  const char* end = strrchr(name, '.');  // the suffix ".ring"
  while (end != nullptr && end > name && end[-1] != '.') --end;
  return end == nullptr ? 0 : static_cast<size_t>(end - name);
}

bool IsSameProcess(const Header& a, const Header& b) noexcept {
  return a.pid == b.pid && a.start_ticks == b.start_ticks && a.pid_namespace_inode == b.pid_namespace_inode &&
         memcmp(a.boot_id, b.boot_id, sizeof(a.boot_id)) == 0 && b.start_ticks != 0;
}

template <typename T>
void Put(long fd, const T& value, size_t at) noexcept {
  Sys(SYS_pwrite64, fd, &value, sizeof(value), static_cast<long>(at));
}

void Mark(long folder, const char* name, const Header& own) noexcept {
  const long fd = Sys(SYS_openat, folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
  if (fd < 0) return;
  struct stat info {};
  static Header old;  // only one thread at a time is in this function
  const bool readable = Sys(SYS_fstat, fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == own.uid &&
                        info.st_size >= static_cast<off_t>(ring::kPage) &&
                        Sys(SYS_pread64, fd, &old, sizeof(old), 0L) == static_cast<long>(sizeof(old));
  if (readable && memcmp(old.magic, ring::kMagic, sizeof(old.magic)) == 0 &&
      old.state == static_cast<uint32_t>(ring::RecorderState::kRecording) && IsSameProcess(old, own)) {
    const uint64_t now = old.tick_kind == ring::TickKind::kMonotonicNs ? MonotonicNs() : Counter();
    Put(fd, kReason, offsetof(Header, stop_reason));
    Put(fd, now, offsetof(Header, stopped_ticks));
    Put(fd, static_cast<uint32_t>(ring::RecorderState::kReplaced), offsetof(Header, state));
  }
  Sys(SYS_close, fd);
}

}  // namespace

LOCKSTEP_COLD void MarkReplacedRings(long folder, const char* name, const Header& own) noexcept {
  const size_t prefix = CommonPrefix(name);
  if (prefix == 0) return;
  alignas(8) static char buffer[4096];
  Directory directory(folder, buffer, sizeof(buffer));
  int files = 0;
  while (const DirectoryEntry* entry = directory.Next()) {
    if (++files > kMostFiles) return;
    if (strncmp(entry->name, name, prefix) == 0 && strcmp(entry->name, name) != 0) Mark(folder, entry->name, own);
  }
}

}  // namespace lockstep::recorder
