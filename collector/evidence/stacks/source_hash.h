// Identifies the Python files that a process runs, to find ranks with different code.
#pragma once

#include <sys/types.h>

#include <string>

namespace lockstep {

// Opens the process's root folder while this process still has access to it; returns -1 if it has not.
int OpenRootOf(pid_t pid);

// Returns "sha256:" and the hash of a file as the process sees it: an absolute path below `root`. Returns an empty
// string if the file cannot be read, is not a regular file, or is larger than a few MiB. Also if the file changed after
// the process started, because then it is unknown what the process runs. The process chose the path, so the caller must
// have given up all rights but the owner's.
std::string SourceHash(pid_t pid, int root, const std::string& path);

}  // namespace lockstep
