// The ends of the ranks' output, if it goes to files.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct LogTail {
  std::vector<size_t> of;  // indexes into `pids`: the writers of this output
  std::string text;
};

// The ends of each process's standard output and error, if they are regular files that the process's user may read.
// Reads whole lines: the last 256 KiB of each file, 32 MiB in all. A child process reads them, because a file on a dead
// server never answers. The data that arrived within `limit_ns` is kept.
std::vector<LogTail> ReadLogTails(const std::vector<pid_t>& pids, int64_t limit_ns);

}  // namespace lockstep
