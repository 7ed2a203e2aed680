// The work of the disposable child process that takes a process's stacks.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace lockstep {

struct StackChildOptions {
  bool may_stop = true;
  // Stopping threads takes at most a third of this time.
  int64_t limit_ns = 4'500'000'000;
  // The process's ring file, through which the recorder's helper provides data that the system refuses; -1 if unknown.
  int ring = -1;
};

// Writes the results to `out` in steps (child_pipe.h): first states and Python stacks, then native stacks with function
// names, then source lines, then hashes of Python files. Returns the exit status. Drops this process's rights and sets
// its limits before it reads foreign files, and may kill it with SIGKILL so that no thread stays stopped for too long.
int RunStackChild(pid_t pid, const StackChildOptions& options, int out);

}  // namespace lockstep
