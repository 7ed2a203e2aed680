// Identifies the Python files that a process runs, to find ranks with different code.
#pragma once

#include <sys/types.h>

#include <string>

namespace lockstep {

// Opens the process's root folder while this process still has access to it. Returns a descriptor for the caller to
// close; -1 without access.
int OpenRootOf(pid_t pid);

// Returns "sha256:" and the hash of a file as the process sees it: an absolute path below `root`. Returns "" if the
// file is unreadable, not a regular file, or larger than 4 MiB. Also returns "" if the file changed after the process
// started, because the code that runs is then unknown. The process chose the path, so the caller must have given up all
// rights but the owner's.
std::string SourceHash(pid_t pid, int root, const std::string& path);

}  // namespace lockstep
