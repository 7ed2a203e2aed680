// A process's memory, and how close the process is to being killed for it, from /proc and the cgroup file system.
#pragma once

#include <sys/types.h>

#include "proto/process.pb.h"

namespace lockstep {

// Unreadable values are -1, but oom_score_adj is 0.
MemoryState ReadMemoryState(pid_t pid);

}  // namespace lockstep
