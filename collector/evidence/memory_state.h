// A process's memory and how close it is to being killed for it, from /proc and the cgroup file system.
#ifndef LOCKSTEP_COLLECTOR_EVIDENCE_MEMORY_STATE_H_
#define LOCKSTEP_COLLECTOR_EVIDENCE_MEMORY_STATE_H_

#include <sys/types.h>

#include <string>

#include "proto/process.pb.h"

namespace lockstep {

// `cgroup_root`: mount point of the cgroup file system. Unreadable values are -1.
MemoryState ReadMemoryState(pid_t pid, const std::string& cgroup_root = "/sys/fs/cgroup");

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_EVIDENCE_MEMORY_STATE_H_
