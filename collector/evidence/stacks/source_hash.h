// Identifies the Python files that a process runs, so that ranks with different code can be told apart.
#pragma once

#include <sys/types.h>

#include <string>

namespace lockstep {

// The root folder of the process, opened while this process may still look into it; -1 if it may not.
int OpenRootOf(pid_t pid);

// "sha256:" and the hash of this file of the process: an absolute path below `root`, as the process sees it. Empty if
// it cannot be read, is no plain file, is larger than a few MiB, or was changed since the process started: then it is
// not known what the process runs. The process chose the path, so the caller must have given up all rights but the
// owner's.
std::string SourceHash(pid_t pid, int root, const std::string& path);

}  // namespace lockstep
