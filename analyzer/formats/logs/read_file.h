// The contents of one text file, before other files are known.
#ifndef LOCKSTEP_ANALYZER_FORMATS_LOGS_READ_FILE_H_
#define LOCKSTEP_ANALYZER_FORMATS_LOGS_READ_FILE_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "analyzer/formats/logs/fingerprint.h"
#include "analyzer/formats/logs/nccl_info.h"
#include "analyzer/formats/logs/python.h"
#include "analyzer/formats/logs/ras.h"
#include "analyzer/formats/logs/torchrun.h"
#include "analyzer/formats/logs/watchdog.h"

namespace lockstep::logs {

// The writer of a line: see Line.
struct Speaker {
  int32_t rank = -1, task = -1, local = -1;
};

template <typename What>
struct Said {
  What what;
  Speaker who;
  int64_t number = 0;  // of the line
};

// Calls of one process on one communicator, in order.
struct NcclComm {
  uint64_t address = 0, id = 0;
  int32_t rank = -1, size = 0;  // rank inside the group; -1 not printed
  int64_t calls = 0;            // collectives
  bool by_count = true;         // each call's opCount is one more than the last one's
  uint64_t first_op_count = 0;
  std::vector<std::pair<int64_t, NcclCall>> newest;  // number in the process, call; a ring once it is full
};

struct NcclProcess {
  std::string host;
  int64_t pid = 0;
  int32_t gpu = -1;
  int32_t global_rank = -1;  // from a call
  Speaker who;
  int64_t number = 0;  // of its first line
  int64_t calls = 0;
  std::vector<NcclComm> comms;  // by first use
};

struct FileFacts {
  std::string path;
  int32_t rank = -1;  // from the file's name; set by the caller
  std::vector<Said<WatchdogLine>> watchdog;
  std::vector<Said<FingerprintLine>> fingerprints;
  std::vector<Said<BarrierLine>> barriers;
  std::vector<NcclProcess> nccl;
  std::vector<RasComm> ras;
  std::vector<PythonStack> stacks;
  std::vector<FailedWorker> failed;
  std::set<int32_t> ranks;                  // ranks that "[rank3]:" prefixes name
  int32_t last_task = -1, last_local = -1;  // the largest before any line
  int32_t world = 0;                        // the largest world size in any line
  bool cut = false;                         // there was more than is kept

  bool Empty() const {
    return watchdog.empty() && fingerprints.empty() && barriers.empty() && nccl.empty() && ras.empty() &&
           stacks.empty() && failed.empty();
  }
};

constexpr size_t kMostCallsKept = 4096;  // of one communicator in one process

// Reads the file at `path`. Errors: it cannot be read, or is damaged; CANCELLED.
absl::Status ReadFile(const std::string& path, const std::function<bool()>& go_on, FileFacts* facts);

}  // namespace lockstep::logs

#endif  // LOCKSTEP_ANALYZER_FORMATS_LOGS_READ_FILE_H_
