#include "collector/evidence/stacks/ptrace_permission.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

constexpr int kCapSysPtrace = 19;
constexpr char kGrantCapability[] =
    "or give it CAP_SYS_PTRACE (systemd: AmbientCapabilities=CAP_SYS_PTRACE; Docker: --cap-add "
    "SYS_PTRACE; Kubernetes: securityContext.capabilities.add: [SYS_PTRACE])";

uint64_t HexField(const std::string& status, const char* name) {
  uint64_t value = 0;
  return absl::SimpleHexAtoi(ProcField(status, name), &value) ? value : 0;
}

// "Uid:\t1000\t1001\t..": real, effective.
uid_t EffectiveUid(const std::string& status) {
  const std::vector<int64_t> uids = ProcNumbers(status, "Uid");
  return uids.size() > 1 ? static_cast<uid_t>(uids[1]) : 0;
}

std::string Label(const std::string& pid) {
  std::string text = ReadSmallFile(absl::StrCat("/proc/", pid, "/attr/current"), 256);
  text.resize(strlen(text.c_str()));
  absl::StripAsciiWhitespace(&text);
  return text == "unconfined" ? "" : text;
}

}  // namespace

PtraceFacts ReadPtraceFacts(pid_t pid, int error) {
  PtraceFacts facts;
  facts.error = error;
  const std::string own = ReadSmallFile("/proc/self/status");
  const std::string other = ReadSmallFile(absl::StrCat("/proc/", pid, "/status"));
  facts.own_uid = geteuid();
  facts.uid = EffectiveUid(other);
  const uint64_t own_capabilities = HexField(own, "CapEff");
  facts.own_ptrace_capability = (own_capabilities >> kCapSysPtrace & 1) != 0;
  facts.more_capabilities = (HexField(other, "CapPrm") & ~HexField(own, "CapPrm")) != 0;
  facts.own_seccomp = ProcField(own, "Seccomp") == "2";
  struct stat here {
  }, there{}, folder{};
  const std::string space = absl::StrCat("/proc/", pid, "/ns/user");
  if (stat("/proc/self/ns/user", &here) == 0 && stat(space.c_str(), &there) == 0)
    facts.other_user_namespace = here.st_ino != there.st_ino;
  // Reading the link may be refused, too, but not the ID mapping, which is the same for all processes of a namespace.
  const std::string own_map = ReadSmallFile("/proc/self/uid_map"),
                    other_map = ReadSmallFile(absl::StrCat("/proc/", pid, "/uid_map"));
  if (!own_map.empty() && !other_map.empty() && own_map != other_map) facts.other_user_namespace = true;
  if (stat(absl::StrCat("/proc/", pid, "/stat").c_str(), &folder) == 0) facts.undumpable = folder.st_uid != facts.uid;
  int scope = 0;
  if (absl::SimpleAtoi(absl::StripAsciiWhitespace(ReadSmallFile("/proc/sys/kernel/yama/ptrace_scope", 16)), &scope))
    facts.yama_scope = scope;
  pid_t tracer = 0;
  if (absl::SimpleAtoi(ProcField(other, "TracerPid"), &tracer) && tracer != 0) {
    facts.tracer = tracer;
    facts.tracer_name =
        std::string(absl::StripAsciiWhitespace(ReadSmallFile(absl::StrCat("/proc/", tracer, "/comm"), 64)));
  }
  facts.own_profile = Label("self");
  facts.profile = Label(absl::StrCat(pid));
  return facts;
}

std::string ExplainPtraceRefusal(const PtraceFacts& f) {
  const std::string refused = absl::StrCat("ptrace refused (", strerror(f.error), "): ");
  if (f.error == ESRCH) return absl::StrCat(refused, "the process is gone");
  if (f.error == ENOSYS)
    return absl::StrCat(refused,
                        "a seccomp filter blocks ptrace; use a profile that allows ptrace and process_vm_readv");
  if (f.tracer != 0) {
    return absl::StrCat(refused, "process ", f.tracer, " (", f.tracer_name,
                        ") already traces it, and a process can have only one tracer; detach it first");
  }
  if (f.yama_scope == 3)
    return absl::StrCat(refused,
                        "kernel.yama.ptrace_scope is 3, which forbids ptrace to everybody until the host is rebooted "
                        "with another value");
  if (!f.own_ptrace_capability) {
    if (f.own_uid != f.uid) {
      return absl::StrCat(refused, "the process runs as user ", f.uid, ", Lockstep as user ", f.own_uid,
                          "; run Lockstep as that user or as root, ", kGrantCapability);
    }
    if (f.undumpable) {
      return absl::StrCat(refused,
                          "the process has made itself undumpable (a set-user-ID or set-capability program, or prctl); "
                          "run Lockstep as root, ",
                          kGrantCapability);
    }
    if (f.other_user_namespace) {
      return absl::StrCat(
          refused, "the process is in another user namespace (a rootless container); run Lockstep as root on the host");
    }
    if (f.more_capabilities)
      return absl::StrCat(refused, "the process has more capabilities than Lockstep; run Lockstep as root, ",
                          kGrantCapability);
    if (f.yama_scope == 1) {
      return absl::StrCat(
          refused,
          "kernel.yama.ptrace_scope is 1, which allows ptrace only to a process's ancestors; run Lockstep as root, ",
          kGrantCapability, ", or for the whole host: sysctl kernel.yama.ptrace_scope=0");
    }
    if (f.yama_scope == 2) {
      return absl::StrCat(
          refused, "kernel.yama.ptrace_scope is 2, which allows ptrace only to administrators; run Lockstep as root, ",
          kGrantCapability);
    }
  } else if (f.other_user_namespace) {
    return absl::StrCat(refused,
                        "the process is in another user namespace, where Lockstep's CAP_SYS_PTRACE does not count; run "
                        "it as root on the host");
  }
  if (!f.own_profile.empty() || !f.profile.empty()) {
    return absl::StrCat(refused,
                        "a security module decides (Lockstep's: ", f.own_profile.empty() ? "unconfined" : f.own_profile,
                        ", the process's: ", f.profile.empty() ? "unconfined" : f.profile,
                        "); grant ptrace between them (AppArmor: a ptrace rule in both profiles; Docker: "
                        "--security-opt apparmor=unconfined)");
  }
  if (f.own_seccomp) {
    return absl::StrCat(refused,
                        "nothing else forbids ptrace, so a seccomp filter on Lockstep does; use a profile that allows "
                        "ptrace and process_vm_readv");
  }
  if (!f.own_ptrace_capability)
    return absl::StrCat(refused, "the kernel gives no reason; run Lockstep as root, ", kGrantCapability);
  return absl::StrCat(
      refused,
      "although Lockstep has CAP_SYS_PTRACE: the process is a kernel thread, or a security module forbids ptrace");
}

}  // namespace lockstep
