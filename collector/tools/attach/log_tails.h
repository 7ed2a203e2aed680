// Reads the ends of the ranks' output, if it goes to files.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct LogTail {
  std::vector<size_t> of;  // the processes that write this output, as indexes into `pids`
  std::string text;
};

// Returns the last lines of each process's standard output and error, if these are regular files that the process's
// user may read. Reads 256 KiB of each file, 32 MiB in total, in a ReadingChild, so there must be only one thread.
// Keeps the data that arrived within `limit_ns`.
std::vector<LogTail> ReadLogTails(const std::vector<pid_t>& pids, int64_t limit_ns);

}  // namespace lockstep
