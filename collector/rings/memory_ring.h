// Rings in the memory of their process, because the file system had no room: the recorder leaves a link of the ring's
// name, JOB.RESTART/x.ring -> /proc/PID/fd/NUMBER. Such a ring exists as long as somebody has it open.
#ifndef LOCKSTEP_COLLECTOR_RINGS_MEMORY_RING_H_
#define LOCKSTEP_COLLECTOR_RINGS_MEMORY_RING_H_

#include <string>

#include "analyzer/util/unique_fd.h"

namespace lockstep {

// Whether `name` in the open folder `folder` is such a link; its target may be gone.
bool IsMemoryRingLink(int folder, const std::string& name);

// The ring behind the link `name` in the open folder `folder`, as O_PATH. The link is hostile: only a memory file with
// exactly this name is accepted. The number is the process's own; here the process may have another. Not ok: it is
// gone, or access is refused.
UniqueFd OpenMemoryRing(int folder, const std::string& name);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_RINGS_MEMORY_RING_H_
