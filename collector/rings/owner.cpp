#include "collector/rings/owner.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep {
namespace {

// The kernel's number of the namespace that all others are seen from.
constexpr uint64_t kInitialPidNamespace = 0xEFFFFFFC;

std::optional<std::string> ReadText(const std::string& path, size_t limit = 16 << 20) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::string text;
  char block[16384];
  ssize_t got = 0;
  while (text.size() < limit && (got = read(fd, block, sizeof block)) > 0) text.append(block, static_cast<size_t>(got));
  close(fd);
  if (got < 0) return std::nullopt;
  return text;
}

// Start time and state from /proc/PID/stat; the name in brackets may hold anything.
bool ReadStat(const std::string& process, char* state, uint64_t* start_ticks) {
  const std::optional<std::string> text = ReadText(process + "/stat", 4096);
  const size_t end = text ? text->rfind(')') : std::string::npos;
  if (end == std::string::npos) return false;
  unsigned long long ticks = 0;
  if (sscanf(text->c_str() + end + 1,
             " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", state, &ticks) != 2) {
    return false;
  }
  *start_ticks = ticks;
  return true;
}

// nullopt: its mappings may not be read. By number or by name: some file systems show others' numbers here, and another
// container has another path, but the file's own name holds a random number.
std::optional<bool> Maps(const std::string& process, const RingFile& file) {
  const std::optional<std::string> maps = ReadText(process + "/maps");
  if (!maps || maps->empty()) return std::nullopt;
  for (size_t at = 0; at < maps->size();) {
    size_t end = maps->find('\n', at);
    if (end == std::string::npos) end = maps->size();
    unsigned major_number = 0, minor_number = 0;
    unsigned long long number = 0;
    if (sscanf(maps->c_str() + at, "%*s %*s %*s %x:%x %llu", &major_number, &minor_number, &number) == 3 &&
        number == file.inode && makedev(major_number, minor_number) == file.device) {
      return true;
    }
    if (std::string_view(*maps).substr(at, end - at).find("/" + file.name) != std::string_view::npos) return true;
    at = end + 1;
  }
  return false;
}

RingOwnerFacts Judge(const std::string& process, const ring::ProcessInfo& info, const std::string& name,
                     const RingFile& file) {
  char state = 0;
  uint64_t start_ticks = 0;
  if (!ReadStat(process, &state, &start_ticks)) return {RingOwner::kGone, name + " is gone"};
  const std::optional<bool> mapped = Maps(process, file);
  if (mapped && *mapped) return {RingOwner::kLives, name + " is running"};
  if (info.start_ticks != 0 && start_ticks != info.start_ticks) {
    return {RingOwner::kGone, name + " is gone (its number is another process's now)"};
  }
  if (state == 'Z' || state == 'X') return {RingOwner::kGone, name + " has ended"};
  if (mapped) return {RingOwner::kReplaced, name + " runs another program now"};
  if (info.state == ring::RecorderState::kReplaced) return {RingOwner::kReplaced, name + " has another ring now"};
  return {RingOwner::kLives, name + " is running"};
}

// The process's own number for itself is the last of NSpid.
bool IsNumberedInside(const std::string& process, int32_t pid) {
  const std::optional<std::string> status = ReadText(process + "/status", 16384);
  const size_t at = status ? status->find("\nNSpid:") : std::string::npos;
  if (at == std::string::npos) return false;
  const size_t end = status->find('\n', at + 1);
  const std::string_view line(status->data() + at + 1, (end == std::string::npos ? status->size() : end) - at - 1);
  const size_t last = line.find_last_of(" \t");
  return last != std::string_view::npos && std::atoi(std::string(line.substr(last + 1)).c_str()) == pid;
}

// In a namespace other than ours: seen from the host's only.
RingOwnerFacts FindInside(const ring::ProcessInfo& info, const std::string& name, const RingFile& file) {
  if (PidNamespace("/proc/self") != kInitialPidNamespace) {
    return {RingOwner::kUnknown, name + " is in another container, which cannot be seen from here"};
  }
  DIR* dir = opendir("/proc");
  if (dir == nullptr) return {RingOwner::kUnknown, "/proc cannot be read"};
  bool hidden = false;
  RingOwnerFacts facts{RingOwner::kGone, name + " of another container is gone"};
  while (const dirent* entry = readdir(dir)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    const std::string process = std::string("/proc/") + entry->d_name;
    const uint64_t space = PidNamespace(process);
    // A zombie is in none. Another user's process cannot have written a ring of ours.
    struct stat owner {};
    char state = 0;
    uint64_t start_ticks = 0;
    if (space == 0) {
      hidden |= ReadStat(process, &state, &start_ticks) && state != 'Z' && state != 'X' &&
                (info.start_ticks == 0 || start_ticks == info.start_ticks) && stat(process.c_str(), &owner) == 0 &&
                owner.st_uid == geteuid();
    }
    if (space != info.pid_namespace_inode || !IsNumberedInside(process, info.pid)) continue;
    facts = Judge(process, info, name + " of another container", file);
    break;
  }
  closedir(dir);
  if (facts.owner == RingOwner::kGone && hidden)
    return {RingOwner::kUnknown, name + " may be one of the processes that cannot be looked at"};
  return facts;
}

}  // namespace

uint64_t PidNamespace(const std::string& process) {
  struct stat info {};
  return stat((process + "/ns/pid").c_str(), &info) == 0 ? info.st_ino : 0;
}

RingOwnerFacts FindRingOwner(const ring::ProcessInfo& info, const RingFile& file) {
  const std::string name = "pid " + std::to_string(info.pid);
  std::optional<std::string> boot = ReadText("/proc/sys/kernel/random/boot_id", 256);
  if (!boot || info.boot_id.empty() || info.pid <= 0) return {RingOwner::kUnknown, "its process is not known"};
  while (!boot->empty() && boot->back() == '\n') boot->pop_back();
  if (*boot != info.boot_id) return {RingOwner::kGone, "of an earlier boot"};
  const uint64_t own = PidNamespace("/proc/self");
  if (own == 0) return {RingOwner::kUnknown, "/proc cannot be read"};
  if (info.pid_namespace_inode != 0 && info.pid_namespace_inode != own) return FindInside(info, name, file);
  return Judge("/proc/" + std::to_string(info.pid), info, name, file);
}

}  // namespace lockstep
