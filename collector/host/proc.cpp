#include "collector/host/proc.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "analyzer/model/bundle.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/printable.h"

namespace lockstep {
namespace {

// The kernel writes space, tab, newline and backslash as "\\040" and so on.
std::string WithoutEscapes(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const absl::string_view digits = text.substr(std::min(i + 1, text.size()), 3);
    if (text[i] != '\\' || digits.size() < 3 || digits.find_first_not_of("01234567") != digits.npos) {
      out.push_back(text[i]);
      continue;
    }
    out.push_back(static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + (digits[2] - '0')));
    i += 3;
  }
  return out;
}

std::string ProcPath(pid_t pid, const char* name) { return absl::StrCat("/proc/", pid, "/", name); }

int64_t ReadIoBytes(pid_t pid) {
  const std::string text = ReadSmallFile(ProcPath(pid, "io"));
  if (text.empty()) return -1;
  int64_t total = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    int64_t value = 0;
    const size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const absl::string_view name = line.substr(0, colon);
    if ((name == "rchar" || name == "wchar") && absl::SimpleAtoi(line.substr(colon + 1), &value)) total += value;
  }
  return total;
}

}  // namespace

std::optional<int> ReadWaitStatus(pid_t pid, int pidfd) {
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  if (stat && stat->state == 'Z' && stat->wait_status >= 0) return stat->wait_status;
  // The kernel's struct pidfd_info as first released. The system's headers may be older than the kernel.
  struct PidfdInfo {
    uint64_t mask, cgroup;
    uint32_t ids[11];
    int32_t exit_code;
  };
  static_assert(sizeof(PidfdInfo) == 64);
  constexpr uint64_t kExit = 1u << 3;
  PidfdInfo info{};
  info.mask = kExit;
  if (pidfd < 0 || ioctl(pidfd, _IOWR(0xff, 11, PidfdInfo), &info) != 0 || (info.mask & kExit) == 0)
    return std::nullopt;
  return info.exit_code;
}

Activity ReadActivity(pid_t pid) { return ReadActivity(pid, ProcessTree::Read()); }

Activity ReadActivity(pid_t pid, const ProcessTree& tree) {
  static const int64_t kPage = std::max(1L, sysconf(_SC_PAGESIZE));
  Activity activity;
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  if (!stat || stat->state == 'Z') return activity;
  activity.valid = true;
  activity.mono_ns = MonotonicNs();
  uint64_t ticks = stat->cpu_ticks, faults = stat->major_faults;
  activity.io_bytes = ReadIoBytes(pid);
  // If a rank waits for its own helper (a checkpoint writer, a copy tool), the helper's activity counts as the rank's.
  for (pid_t child : tree.Below(pid)) {
    if (const std::optional<ProcStat> below = ReadProcStat(child)) {
      ticks += below->cpu_ticks;
      faults += below->major_faults;
      activity.running |= below->state == 'R';
    }
    const int64_t io = ReadIoBytes(child);
    if (io > 0 && activity.io_bytes >= 0) activity.io_bytes += io;
  }
  static const int64_t kTickNs = 1'000'000'000 / std::max(1L, sysconf(_SC_CLK_TCK));
  activity.cpu_ns = static_cast<int64_t>(ticks) * kTickNs;
  if (activity.io_bytes >= 0) activity.io_bytes += static_cast<int64_t>(faults) * kPage;
  return activity;
}

ProcessTree ProcessTree::Read() {
  ProcessTree tree;
  for (const pid_t pid : NumbersIn("/proc")) {
    if (const std::optional<ProcStat> stat = ReadProcStat(pid)) tree.children_.emplace(stat->parent, pid);
  }
  return tree;
}

std::vector<pid_t> Descendants(pid_t root) { return ProcessTree::Read().Below(root); }

std::vector<pid_t> ProcessTree::Below(pid_t root) const {
  std::vector<pid_t> found = {root};
  for (size_t at = 0; at < found.size(); ++at) {
    const auto [first, last] = children_.equal_range(found[at]);
    for (auto child = first; child != last; ++child) {
      if (std::find(found.begin(), found.end(), child->second) == found.end()) found.push_back(child->second);
    }
  }
  found.erase(found.begin());
  return found;
}

std::string ReadWchan(pid_t pid) {
  std::string text = ReadSmallFile(ProcPath(pid, "wchan"), 256);
  absl::StripAsciiWhitespace(&text);
  return text == "0" ? "" : text;
}

std::vector<std::string> ReadKernelFrames(const std::string& folder) {
  std::vector<std::string> frames;
  for (absl::string_view line : absl::StrSplit(ReadSmallFile(folder + "/stack"), '\n', absl::SkipEmpty())) {
    const size_t space = line.find(' ');  // "[<0>] hrtimer_nanosleep+0x8d/0x120"
    if (space != line.npos) frames.emplace_back(line.substr(space + 1));
  }
  return frames;
}

std::vector<std::string> ReadKernelStack(pid_t pid) {
  std::vector<std::string> frames = ReadKernelFrames(absl::StrCat("/proc/", pid));
  for (std::string& frame : frames) frame.insert(0, "[kernel] ");
  if (!frames.empty()) return frames;
  std::string call = ReadSmallFile(ProcPath(pid, "syscall"), 256);
  absl::StripAsciiWhitespace(&call);
  if (call.empty()) return frames;
  if (call == "running") return {"running in user space"};
  const std::string number = call.substr(0, call.find(' '));
  frames.push_back(number == "-1" ? "blocked outside a system call" : absl::StrCat("in system call ", number));
  return frames;
}

SleepingThreads ReadThreadsInD(pid_t pid) {
  constexpr int kMostThreads = 1024;
  SleepingThreads found;
  int looked = 0;
  for (const pid_t tid : NumbersIn(ProcPath(pid, "task"))) {
    if (++looked > kMostThreads) break;
    const std::string folder = absl::StrCat(ProcPath(pid, "task"), "/", tid);
    const std::optional<ProcStat> stat = ReadProcStat(folder);
    if (stat && stat->state == 'R') ++found.running;
    if (!stat || stat->state != 'D') continue;
    if (found.count++ > 0) continue;
    found.wchan = ReadSmallFile(folder + "/wchan", 256);
    absl::StripAsciiWhitespace(&found.wchan);
    if (found.wchan == "0") found.wchan.clear();
  }
  return found;
}

std::map<int64_t, std::string> ParseMounts(std::string_view mountinfo) {
  std::map<int64_t, std::string> mounts;
  for (absl::string_view line : absl::StrSplit(absl::string_view(mountinfo.data(), mountinfo.size()), '\n')) {
    // "36 35 98:0 /root /mount\\040point rw,noatime master:1 - ext3 /dev/sda1 rw"; the number of "master:1" varies.
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    int64_t number = 0;
    if (words.size() < 8 || words[4].substr(0, 1) != "/" || !absl::SimpleAtoi(words[0], &number)) continue;
    const auto dash = std::find(words.begin() + 6, words.end(), "-");
    if (words.end() - dash < 2) continue;
    mounts[number] = CleanUtf8(absl::StrCat(WithoutEscapes(words[4]), " (", *(dash + 1), ")"), 512);
  }
  return mounts;
}

WrittenFiles ReadWrittenFiles(pid_t pid, size_t limit) {
  constexpr int kMostDescriptors = 1024;
  constexpr size_t kMostMountBytes = 4 << 20;
  WrittenFiles files;
  std::map<int64_t, std::string> mounts;
  int looked = 0;
  for (const int fd : NumbersIn(ProcPath(pid, "fd"))) {
    if (++looked > kMostDescriptors) break;
    if (fd <= STDERR_FILENO) continue;  // the program's output
    const std::string name = LinkTarget(absl::StrCat(ProcPath(pid, "fd"), "/", fd));
    if (!absl::StartsWith(name, "/")) continue;  // a socket, a pipe or another unnamed file
    bool device = false;
    for (absl::string_view folder : {"/dev/", "/proc/", "/sys/", "/memfd:"}) device |= absl::StartsWith(name, folder);
    if (device) continue;
    int64_t flags = 0, mount = -1;  // "pos:\t0\nflags:\t0100001\nmnt_id:\t29\n"
    for (absl::string_view line : absl::StrSplit(ReadSmallFile(absl::StrCat(ProcPath(pid, "fdinfo"), "/", fd)), '\n')) {
      if (line.substr(0, 6) == "flags:") flags = strtoll(std::string(line.substr(6)).c_str(), nullptr, 8);
      if (line.substr(0, 7) == "mnt_id:") mount = strtoll(std::string(line.substr(7)).c_str(), nullptr, 10);
    }
    if ((flags & O_ACCMODE) == O_RDONLY) continue;
    if (files.paths.empty()) mounts = ParseMounts(ReadSmallFile(ProcPath(pid, "mountinfo"), kMostMountBytes));
    files.paths.emplace_back(name);
    const auto found = mounts.find(mount);
    files.mounts.push_back(found == mounts.end() ? "" : found->second);
    if (files.paths.size() >= limit) break;
  }
  return files;
}

std::optional<Mapped> ReadMapped(pid_t pid, const std::string& library) {
  const std::string maps = ReadSmallFile(ProcPath(pid, "maps"), 16 << 20);
  if (maps.empty()) return std::nullopt;
  Mapped mapped;
  const std::string own = library.substr(library.rfind('/') + 1);
  for (absl::string_view line : absl::StrSplit(maps, '\n', absl::SkipEmpty())) {
    const size_t slash = line.rfind('/');
    if (slash == line.npos) continue;
    const absl::string_view name = line.substr(slash + 1);
    if (name == own) mapped.lockstep = true;
    if (name.substr(0, 7) == "libnccl" || name.substr(0, 7) == "librccl") mapped.nccl = true;
    if (name.substr(0, 8) == "libtorch") mapped.torch = true;
    if (absl::StrContains(line, " /dev/nvidia") || absl::StrContains(line, " /dev/dri/")) mapped.gpu = true;
    if (name.substr(0, 3) == "ld-" || name.substr(0, 5) == "libc.") mapped.dynamic = true;
    // A ring in memory is an unnamed file: "/memfd:HOST.PID.0.ring (deleted)".
    if (absl::EndsWith(absl::StripSuffix(name, " (deleted)"), ".ring")) mapped.ring = true;
  }
  return mapped;
}

std::optional<std::string> ReadEnvironment(pid_t pid, const std::string& name) {
  const std::string text = ReadSmallFile(ProcPath(pid, "environ"), 4 << 20);
  for (absl::string_view entry : absl::StrSplit(text, '\0', absl::SkipEmpty())) {
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.substr(0, name.size()) == name) {
      return std::string(entry.substr(name.size() + 1));
    }
  }
  return std::nullopt;
}

void SetEnd(int wait_status, Process* process) {
  process->life = Life::kGone;
  if (wait_status < 0) return;
  process->life = WIFSIGNALED(wait_status) ? Life::kKilled : Life::kExited;
  if (WIFSIGNALED(wait_status)) process->signal = WTERMSIG(wait_status);
  if (WIFEXITED(wait_status)) process->exit_code = WEXITSTATUS(wait_status);
}

}  // namespace lockstep
