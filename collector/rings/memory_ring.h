// Rings in their process's memory, for file systems without space. The recorder leaves a link with the ring's name,
// JOB.RESTART/x.ring -> /proc/PID/fd/NUMBER. The ring exists as long as any process has it open.
#pragma once

#include <string>

#include "analyzer/util/unique_fd.h"

namespace lockstep {

// Returns whether `name` in the open folder `folder` is a link to such a ring. The target may no longer exist.
bool IsMemoryRingLink(int folder, const std::string& name);

// Opens the ring behind the link `name` in the open folder `folder`, with O_PATH. The link is untrusted: only a memory
// file with exactly this name is accepted. The PID in the link is from the process's own PID namespace, so it may
// differ from the one seen here. The result is not ok if the ring no longer exists or access is refused.
UniqueFd OpenMemoryRing(int folder, const std::string& name);

}  // namespace lockstep
