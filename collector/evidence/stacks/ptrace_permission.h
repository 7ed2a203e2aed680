// Why the kernel refuses access to a process, and how to permit it.
#pragma once

#include <sys/types.h>

#include <string>

namespace lockstep {

// The facts that decide whether ptrace is permitted, as far as they are visible from outside (ptrace(2), "Ptrace access
// mode checking").
struct PtraceFacts {
  int error = 0;               // errno of ptrace
  uid_t own_uid = 0, uid = 0;  // effective user IDs of this process and of the other
  bool own_ptrace_capability = false;
  bool other_user_namespace = false;
  bool undumpable = false;         // the process's /proc files belong to root although the process does not run as root
  bool more_capabilities = false;  // the process has capabilities that this process does not have
  int yama_scope = -1;             // kernel.yama.ptrace_scope; -1 without Yama
  pid_t tracer = 0;                // the current tracer
  std::string tracer_name;
  bool own_seccomp = false;          // a seccomp filter restricts this process
  std::string own_profile, profile;  // the security module's labels; empty if there is none
};
PtraceFacts ReadPtraceFacts(pid_t pid, int error);

// Returns one line: "ptrace refused (Operation not permitted): kernel.yama.ptrace_scope is 1, which ...; grant it with
// ...".
std::string ExplainPtraceRefusal(const PtraceFacts& facts);

}  // namespace lockstep
