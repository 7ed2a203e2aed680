#include "collector/tools/attach/log_tails.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/util/atomic_file.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/proc_stat.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/unique_fd.h"
#include "collector/host/reading_child.h"

namespace lockstep {
namespace {

constexpr off_t kMostTail = 256 << 10;
constexpr size_t kMostBytes = 32 << 20;

// The child writes this before each tail.
struct Piece {
  uint64_t process, device, inode, bytes;
};

bool MayRead(const struct stat& file, uid_t user, const std::vector<int64_t>& groups) {
  if (file.st_uid == user) return (file.st_mode & S_IRUSR) != 0;
  if (std::find(groups.begin(), groups.end(), static_cast<int64_t>(file.st_gid)) != groups.end())
    return (file.st_mode & S_IRGRP) != 0;
  return (file.st_mode & S_IROTH) != 0;
}

// Opens the file behind the process's descriptor if it is a regular file that the process's user may read. Opens with
// O_PATH first, which has no side effects on a device or a pipe.
UniqueFd OpenOutput(pid_t pid, int number, struct stat* info) {
  const UniqueFd path(open(absl::StrCat("/proc/", pid, "/fd/", number).c_str(), O_PATH | O_CLOEXEC));
  if (!path.ok() || fstat(path.get(), info) != 0 || !S_ISREG(info->st_mode)) return UniqueFd();
  const std::string status = ReadSmallFile(absl::StrCat("/proc/", pid, "/status"));
  const std::vector<int64_t> users = ProcNumbers(status, "Uid");
  std::vector<int64_t> groups = ProcNumbers(status, "Groups");
  const std::vector<int64_t> own = ProcNumbers(status, "Gid");
  if (users.size() < 2 || own.size() < 2) return UniqueFd();
  groups.push_back(own[1]);
  if (!MayRead(*info, static_cast<uid_t>(users[1]), groups)) return UniqueFd();
  return UniqueFd(open(absl::StrCat("/proc/self/fd/", path.get()).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

void WriteTails(const std::vector<pid_t>& pids, int to) {
  std::vector<std::pair<dev_t, ino_t>> written;
  for (size_t i = 0; i < pids.size(); ++i) {
    for (const int number : {1, 2}) {
      struct stat info {};
      const UniqueFd file = OpenOutput(pids[i], number, &info);
      if (!file.ok()) continue;
      const std::pair<dev_t, ino_t> identity(info.st_dev, info.st_ino);
      const bool known = std::find(written.begin(), written.end(), identity) != written.end();
      if (!known) written.push_back(identity);
      std::string tail;
      if (!known) {
        tail.resize(static_cast<size_t>(std::min(info.st_size, kMostTail)));
        const ssize_t got = pread(file.get(), tail.data(), tail.size(), std::max<off_t>(0, info.st_size - kMostTail));
        tail.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
        // Drops the first, partial line.
        if (info.st_size > kMostTail) tail.erase(0, tail.find('\n') + 1);
      }
      if (!WritePiece(to, Piece{i, info.st_dev, info.st_ino, 0}, tail)) return;
    }
  }
}

std::vector<LogTail> TakePieces(const std::string& bytes, size_t processes) {
  std::vector<LogTail> tails;
  std::map<std::pair<uint64_t, uint64_t>, size_t> known;
  ForEachPiece<Piece>(bytes, [&](const Piece& piece, std::string text) {
    if (piece.process >= processes) return false;
    const auto [place, fresh] = known.try_emplace({piece.device, piece.inode}, tails.size());
    if (fresh) tails.push_back({{}, std::move(text)});
    std::vector<size_t>& of = tails[place->second].of;
    if (of.empty() || of.back() != piece.process) of.push_back(piece.process);
    return true;
  });
  return tails;
}

}  // namespace

std::vector<LogTail> ReadLogTails(const std::vector<pid_t>& pids, int64_t limit_ns) {
  ReadingChild child([&pids](int to) { WriteTails(pids, to); });
  return TakePieces(child.Take(MonotonicNs() + limit_ns, kMostBytes), pids.size());
}

}  // namespace lockstep
