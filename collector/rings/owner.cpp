#include "collector/rings/owner.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>
#include <vector>

#include "analyzer/util/folders.h"
#include "analyzer/util/proc_stat.h"
#include "analyzer/util/small_file.h"

namespace lockstep {
namespace {

// The kernel's number for the initial namespace, from which all others are visible.
constexpr uint64_t kInitialPidNamespace = 0xEFFFFFFC;

RingOwnerFacts Judge(const std::string& process, const ring::ProcessInfo& info, const std::string& name,
                     const RingFile& file) {
  const std::optional<ProcStat> stat = ReadProcStat(process);
  if (!stat) return {RingOwner::kGone, name + " is gone"};
  const std::optional<bool> mapped = MapsRing(process, file);
  if (mapped && *mapped) return {RingOwner::kLives, name + " is running"};
  if (info.start_ticks != 0 && stat->start_ticks != info.start_ticks) {
    return {RingOwner::kGone, name + " is gone (another process has its PID now)"};
  }
  if (stat->ended()) return {RingOwner::kGone, name + " has exited"};
  if (mapped) return {RingOwner::kReplaced, name + " now runs another program"};
  if (info.state == ring::RecorderState::kReplaced) return {RingOwner::kReplaced, name + " now has another ring"};
  return {RingOwner::kLives, name + " is running"};
}

// The process is in another namespace, which is visible only from the host.
RingOwnerFacts FindInside(const ring::ProcessInfo& info, const std::string& name, const RingFile& file) {
  if (PidNamespace("/proc/self") != kInitialPidNamespace) {
    return {RingOwner::kUnknown, name + " is in another container, which cannot be seen from here"};
  }
  const std::vector<int> pids = NumbersIn("/proc");
  if (pids.empty()) return {RingOwner::kUnknown, "/proc cannot be read"};
  bool hidden = false;
  RingOwnerFacts facts{RingOwner::kGone, name + " of another container is gone"};
  for (const int pid : pids) {
    const std::string process = "/proc/" + std::to_string(pid);
    const uint64_t space = PidNamespace(process);
    // A zombie is in no namespace. A process of another user cannot have written this user's ring.
    struct stat owner {};
    if (space == 0) {
      const std::optional<ProcStat> now = ReadProcStat(process);
      hidden |= now && !now->ended() && (info.start_ticks == 0 || now->start_ticks == info.start_ticks) &&
                stat(process.c_str(), &owner) == 0 && owner.st_uid == geteuid();
    }
    if (space != info.pid_namespace_inode || InnerPid(process) != info.pid) continue;
    facts = Judge(process, info, name + " of another container", file);
    break;
  }
  if (facts.owner == RingOwner::kGone && hidden)
    return {RingOwner::kUnknown, name + " may be one of the processes that cannot be examined"};
  return facts;
}

}  // namespace

// Compares by inode number or by name. Some file systems show other numbers here, and the path differs in another
// container, but the file's own name contains a random number.
std::optional<bool> MapsRing(const std::string& process, const RingFile& file) {
  const std::string maps = ReadSmallFile(process + "/maps", 32 << 20);
  if (maps.empty()) return std::nullopt;
  for (size_t at = 0; at < maps.size();) {
    size_t end = maps.find('\n', at);
    if (end == std::string::npos) end = maps.size();
    unsigned major_number = 0, minor_number = 0;
    unsigned long long number = 0;
    if (sscanf(maps.c_str() + at, "%*s %*s %*s %x:%x %llu", &major_number, &minor_number, &number) == 3 &&
        number == file.inode && makedev(major_number, minor_number) == file.device) {
      return true;
    }
    if (std::string_view(maps).substr(at, end - at).find("/" + file.name) != std::string_view::npos) return true;
    at = end + 1;
  }
  return false;
}

uint64_t PidNamespace(const std::string& process) {
  struct stat info {};
  return stat((process + "/ns/pid").c_str(), &info) == 0 ? info.st_ino : 0;
}

RingOwnerFacts FindRingOwner(const ring::ProcessInfo& info, const RingFile& file) {
  const std::string name = "pid " + std::to_string(info.pid);
  if (BootId().empty() || info.boot_id.empty() || info.pid <= 0) return {RingOwner::kUnknown, "its process is unknown"};
  if (BootId() != info.boot_id) return {RingOwner::kGone, "from an earlier boot"};
  const uint64_t own = PidNamespace("/proc/self");
  if (own == 0) return {RingOwner::kUnknown, "/proc cannot be read"};
  if (info.pid_namespace_inode != 0 && info.pid_namespace_inode != own) return FindInside(info, name, file);
  return Judge("/proc/" + std::to_string(info.pid), info, name, file);
}

}  // namespace lockstep
