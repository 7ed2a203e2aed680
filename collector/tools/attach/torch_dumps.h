// Flight Recorder dumps of a running PyTorch job: recent files, and files that the job writes on demand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/host/reading_child.h"
#include "collector/tools/attach/discovery.h"

namespace lockstep {

struct TorchDump {
  size_t of = 0;  // index into FoundJob::ranks
  std::string bytes;
  int64_t written_ns = 0;  // time of the file
};

struct TorchDumps {
  std::vector<TorchDump> dumps;
  std::string
      missing;  // if dumps were requested: a sentence with the ranks without a dump, and why; empty if there are none
  bool can_ask = false;  // the job has a pipe for requests, was not asked, and a dump is missing
};

// PyTorch's watchdog reads the pipe TORCH_NCCL_DEBUG_INFO_PIPE_FILE + rank + ".pipe" about once a second. If a byte
// arrives, it writes a dump to TORCH_FR_DUMP_TEMP_FILE (older: TORCH_NCCL_DEBUG_INFO_TEMP_FILE) + rank. The variables'
// values at the process's start count. Paths are as the process sees them.
//
// A child process opens the files with the permissions of the job's user. It follows no link at the end of a path, and
// no link out of the process's root. It writes only to pipes of that user, and reads only complete regular files of
// that user.
class TorchDumpReader {
 public:
  // With `ask`, writes a byte into the pipe of each rank, and takes the files that change within `wait_ns`. Otherwise
  // takes recent files that the job's variables name, except files much older than the newest one. Forks, so call it
  // while there is only one thread. `job` must outlive the reader.
  TorchDumpReader(const FoundJob& job, bool ask, int64_t wait_ns);

  // Reads the child's output until it ends or the time is over. Another thread may call this. A child without a reader
  // blocks.
  TorchDumps Take();

 private:
  const FoundJob& job_;
  const bool ask_;
  const int64_t wait_ns_, deadline_ns_;
  std::optional<ReadingChild> child_;
};

}  // namespace lockstep
