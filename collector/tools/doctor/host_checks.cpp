#include "collector/tools/doctor/checks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/report/phrases.h"
#include "analyzer/util/folders.h"
#include "analyzer/util/unique_fd.h"
#include "collector/evidence/stacks/ptrace_permission.h"
#include "collector/host/memory_cgroup.h"
#include "collector/host/proc.h"

namespace lockstep::doctor {
namespace {

std::string FirstLine(const std::string& path) {
  const std::string text = ReadSmallFile(path, 4096);
  return Printable(std::string(absl::StripAsciiWhitespace(text.substr(0, text.find('\n')))), 200);
}

bool HasPtraceCapability() {
  constexpr uint64_t kSysPtrace = uint64_t{1} << 19;  // CAP_SYS_PTRACE, capability.h
  uint64_t bits = 0;
  return absl::SimpleHexAtoi(ProcField(ReadSmallFile("/proc/self/status"), "CapEff"), &bits) &&
         (bits & kSysPtrace) != 0;
}

}  // namespace

Check CudaCheck() {
  int gpus = 0;
  for (const std::string& name : NamesIn("/dev")) {
    int number = 0;
    gpus += absl::StartsWith(name, "nvidia") && absl::SimpleAtoi(name.substr(6), &number) ? 1 : 0;
  }
  const std::string driver = FirstLine("/proc/driver/nvidia/version");
  std::string text = gpus == 0 ? "no GPU is visible" : absl::StrCat(gpus, gpus == 1 ? " GPU" : " GPUs");
  if (!driver.empty()) absl::StrAppend(&text, "; ", driver);
  // Only looks for the library's file, because loading NVML may connect to a daemon or create a context.
  const bool nvml = access("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", R_OK) == 0 ||
                    access("/usr/lib64/libnvidia-ml.so.1", R_OK) == 0 ||
                    access("/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1", R_OK) == 0 ||
                    access("/usr/lib/libnvidia-ml.so.1", R_OK) == 0;
  if (gpus == 0) {
    if (access("/dev/kfd", F_OK) == 0)
      return Good("GPUs", "an AMD GPU (/dev/kfd); RCCL is recorded, HIP graphs are not");
    return Note("GPUs", text, "calls are recorded anyway; to see GPU state in a container, pass the GPUs to it");
  }
  if (!nvml)
    return Note(
        "GPUs", text + "; no libnvidia-ml.so.1",
        "GPU state and Xid errors need it: in a container, add the utility capability (NVIDIA_DRIVER_CAPABILITIES)");
  return Good("GPUs", text);
}

Check PtraceCheck() {
  const std::string name = "stacks";
  const int scope = [] {
    int value = -1;
    return absl::SimpleAtoi(absl::StripAsciiWhitespace(ReadSmallFile("/proc/sys/kernel/yama/ptrace_scope", 16)), &value)
               ? value
               : -1;
  }();
  // With ptrace_scope 0 or 1, Yama allows access to a child, so a refusal has another reason.
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  if (child < 0) return Note(name, absl::StrCat("not tried: ", strerror(errno)));
  Check check = Good(name, "native and Python stacks of suspects can be read");
  if (ptrace(PTRACE_SEIZE, child, nullptr, nullptr) != 0) {
    check = Note(name, ExplainPtraceRefusal(ReadPtraceFacts(child, errno)),
                 "without this, verdicts have no stacks, but everything else works");
  } else if (!HasPtraceCapability() && scope >= 1) {
    check = Note(
        name,
        absl::StrCat("kernel.yama.ptrace_scope is ", scope,
                     ": lockstep run can read the stacks of its own children, but an agent next to the job cannot"),
        "give the agent CAP_SYS_PTRACE, or sysctl kernel.yama.ptrace_scope=0");
  } else if (!HasPtraceCapability()) {
    check.text += " for this user's processes";
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return check;
}

Check NamespaceCheck() {
  // The host's initial namespaces have these inodes (PROC_PID_INIT_INO, PROC_USER_INIT_INO in linux/proc_ns.h).
  struct stat pids {
  }, users{};
  const bool other_pids = stat("/proc/self/ns/pid", &pids) == 0 && pids.st_ino != 0xEFFFFFFCu;
  const bool other_users = stat("/proc/self/ns/user", &users) == 0 && users.st_ino != 0xEFFFFFFDu;
  std::vector<std::string> inside;
  if (other_pids) inside.push_back("a pid namespace");
  if (other_users) inside.push_back("a user namespace");
  if (inside.empty()) return Good("container", "none: all processes on the host are visible");
  return Note("container", absl::StrCat("inside ", absl::StrJoin(inside, " and ")),
              "an agent here sees only this container's ranks; an agent on the host, or with hostPID, sees those of "
              "all containers");
}

Check CgroupCheck() {
  const std::string name = "memory limit";
  const auto [path, events, limit, used] = FindMemoryCgroup("/proc/self");
  if (limit < 0) return Good(name, "none, or it cannot be read");
  if (used < 0) return Good(name, BytesText(limit) + "; rings count against it");
  const std::string text = absl::StrCat(BytesText(used), " of ", BytesText(limit), " in use; rings count against it");
  if (limit - used < (int64_t{64} << 20))
    return Note(name, text, "the rings of 8 ranks take 32 MiB; LOCKSTEP_RING_KIB=512 shrinks them");
  return Good(name, text);
}

Check KernelLogCheck() {
  const UniqueFd fd(open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const int error = errno;
  char line[8192];
  // The first read checks the permission. It returns EPIPE if the record was overwritten, and EAGAIN if the log is
  // empty.
  const bool readable = fd.ok() && (read(fd.get(), line, sizeof line) >= 0 || errno == EPIPE || errno == EAGAIN);
  const int why = fd.ok() ? errno : error;
  if (readable) return Good("kernel log", "readable: Xid, memory and link errors will be reported");
  return Note("kernel log", absl::StrCat("/dev/kmsg: ", strerror(why)),
              "to see Xid errors and machine checks, run the agent as root or with CAP_SYSLOG");
}

}  // namespace lockstep::doctor
