// Programs of one's own that are started for a while.
#ifndef LOCKSTEP_ANALYZER_UTIL_START_CHILD_H_
#define LOCKSTEP_ANALYZER_UTIL_START_CHILD_H_

#include <spawn.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep {

// Starts argv[0], a path that is not searched for, with this process's environment, in a process group of its own (a
// terminal's Ctrl-C is not for it; kill(-pid) ends what it starts, too), with no signal blocked or ignored. `actions`
// are done in it before; they stay the caller's, and so does the child: it is to be waited for. Any thread. Returns its
// pid; UNAVAILABLE with the path and the reason where it cannot be started.
absl::StatusOr<pid_t> StartChild(const std::vector<std::string>& argv, const posix_spawn_file_actions_t& actions);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_UTIL_START_CHILD_H_
