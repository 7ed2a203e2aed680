#include "collector/attach/log_tails.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/proc_stat.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/start_child.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep {
namespace {

constexpr off_t kMostTail = 256 << 10;
constexpr size_t kMostBytes = 32 << 20;

// What the child writes before each tail.
struct Piece {
  uint64_t process, device, inode, bytes;
};

bool MayRead(const struct stat& file, uid_t user, const std::vector<int64_t>& groups) {
  if (file.st_uid == user) return (file.st_mode & S_IRUSR) != 0;
  if (std::find(groups.begin(), groups.end(), static_cast<int64_t>(file.st_gid)) != groups.end())
    return (file.st_mode & S_IRGRP) != 0;
  return (file.st_mode & S_IROTH) != 0;
}

// Opens what the process has open there, if it is a regular file that its user may read. Opening it by O_PATH first
// does nothing to a device or a pipe.
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

bool WriteWhole(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = write(fd, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
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
        // From the first whole line on.
        if (info.st_size > kMostTail) tail.erase(0, tail.find('\n') + 1);
      }
      const Piece piece = {i, info.st_dev, info.st_ino, tail.size()};
      if (!WriteWhole(to, &piece, sizeof piece) || !WriteWhole(to, tail.data(), tail.size())) return;
    }
  }
}

std::vector<LogTail> TakePieces(const std::string& bytes, size_t processes) {
  std::vector<LogTail> tails;
  std::map<std::pair<uint64_t, uint64_t>, size_t> known;
  for (size_t at = 0; bytes.size() - at >= sizeof(Piece);) {
    Piece piece;
    std::memcpy(&piece, bytes.data() + at, sizeof piece);
    at += sizeof piece;
    if (piece.process >= processes || piece.bytes > bytes.size() - at) break;
    const auto [place, fresh] = known.try_emplace({piece.device, piece.inode}, tails.size());
    if (fresh) tails.push_back({{}, bytes.substr(at, piece.bytes)});
    std::vector<size_t>& of = tails[place->second].of;
    if (of.empty() || of.back() != piece.process) of.push_back(piece.process);
    at += piece.bytes;
  }
  return tails;
}

}  // namespace

std::vector<LogTail> ReadLogTails(const std::vector<pid_t>& pids, int64_t limit_ns) {
  UniqueFd from, to;
  if (!MakePipe(&from, &to)) return {};
  const pid_t child = fork();
  if (child < 0) return {};
  if (child == 0) {
    from.reset();
    WriteTails(pids, to.get());
    _exit(0);
  }
  to.reset();
  const int64_t deadline = MonotonicNs() + limit_ns;
  std::string bytes;
  while (bytes.size() < kMostBytes) {
    const int64_t left = deadline - MonotonicNs();
    pollfd ready = {from.get(), POLLIN, 0};
    if (left <= 0 || poll(&ready, 1, static_cast<int>(left / 1'000'000) + 1) <= 0) break;
    char buffer[65536];
    const ssize_t got = read(from.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    bytes.append(buffer, static_cast<size_t>(got));
  }
  // One that waits for a server for good is left to itself.
  kill(child, SIGKILL);
  for (int i = 0; i < 20 && waitpid(child, nullptr, WNOHANG) == 0; ++i) poll(nullptr, 0, 5);
  return TakePieces(bytes, pids.size());
}

}  // namespace lockstep
