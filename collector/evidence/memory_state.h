// A process's memory, and how close the process is to being killed for it, from /proc and the cgroup file system.
#pragma once

#include <sys/types.h>

#include <string>

#include "proto/process.pb.h"

namespace lockstep {

// `cgroup_root` is the mount point of the cgroup file system. Unreadable values are -1.
MemoryState ReadMemoryState(pid_t pid, const std::string& cgroup_root = "/sys/fs/cgroup");

}  // namespace lockstep
