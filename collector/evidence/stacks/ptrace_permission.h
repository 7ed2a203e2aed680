// Why the kernel refuses access to a process, and how to permit it.
#ifndef LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_PTRACE_PERMISSION_H_
#define LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_PTRACE_PERMISSION_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace lockstep {

// The facts that decide over ptrace, as far as they are visible from outside (ptrace(2), "Ptrace access mode
// checking").
struct PtraceFacts {
  int error = 0;               // errno of ptrace
  uid_t own_uid = 0, uid = 0;  // effective, of us and of the process
  bool own_ptrace_capability = false;
  bool other_user_namespace = false;
  bool undumpable = false;         // its /proc files belong to root although it does not run as root
  bool more_capabilities = false;  // it has capabilities that we lack
  int yama_scope = -1;             // kernel.yama.ptrace_scope; -1: no Yama
  pid_t tracer = 0;                // the current tracer
  std::string tracer_name;
  bool own_seccomp = false;          // a seccomp filter restricts us
  std::string own_profile, profile;  // security module's labels; empty: none
};
PtraceFacts ReadPtraceFacts(pid_t pid, int error);

// One line: "ptrace refused (Operation not permitted): kernel.yama.ptrace_scope is 1, which ...; grant it with ...".
std::string ExplainPtraceRefusal(const PtraceFacts& facts);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_PTRACE_PERMISSION_H_
