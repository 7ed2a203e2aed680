// A process's memory and how near it is to being killed for it, from /proc and the cgroup file system.
#ifndef LOCKSTEP_COLLECTOR_EVIDENCE_MEMORY_STATE_H_
#define LOCKSTEP_COLLECTOR_EVIDENCE_MEMORY_STATE_H_

#include <sys/types.h>

#include <string>

#include "proto/process.pb.h"

namespace lockstep {

// `cgroup_root`: where the cgroup file system is mounted. What cannot be read is -1.
MemoryState ReadMemoryState(pid_t pid, const std::string& cgroup_root = "/sys/fs/cgroup");

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_EVIDENCE_MEMORY_STATE_H_
