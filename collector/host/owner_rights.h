// Reduces a disposable child's rights to those of a process's owner. That owner may have created the files that the
// child opens, in order to mislead it.
#pragma once

#include <sys/types.h>

#include <string>

namespace lockstep {

// Permanently gives up for this process: root, all capabilities, supplementary groups, core dumps, writing to regular
// files, and more than 32 GiB of address space. If it was root, this process then has the user and group of process
// `pid`. Returns the reason for a failure, or "" on success.
std::string TakeOwnersRights(pid_t pid);

}  // namespace lockstep
