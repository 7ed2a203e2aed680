// What one file of text says, before other files are known.
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

// Who says a line: see Line.
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
  int32_t rank = -1, size = 0;  // rank inside; -1 not said
  int64_t calls = 0;            // collectives
  bool by_count = true;         // each call's opCount is one more than the last one's
  uint64_t first_op_count = 0;
  std::vector<std::pair<int64_t, NcclCall>> newest;  // number in the process, call; a ring once it is full
};

struct NcclProcess {
  std::string host;
  int64_t pid = 0;
  int32_t gpu = -1;
  int32_t global_rank = -1;  // where a call said it
  Speaker who;
  int64_t number = 0;  // of its first line
  int64_t calls = 0;
  std::vector<NcclComm> comms;  // by first use
};

struct FileFacts {
  std::string path;
  int32_t rank = -1;  // in the file's name; set by the caller
  std::vector<Said<WatchdogLine>> watchdog;
  std::vector<Said<FingerprintLine>> fingerprints;
  std::vector<Said<BarrierLine>> barriers;
  std::vector<NcclProcess> nccl;
  std::vector<RasComm> ras;
  std::vector<PythonStack> stacks;
  std::vector<FailedWorker> failed;
  std::set<int32_t> ranks;                  // that "[rank3]:" stands for before any line
  int32_t last_task = -1, last_local = -1;  // the largest before any line
  int32_t world = 0;                        // the largest world size that any line says
  bool cut = false;                         // more than is kept was in it

  bool Empty() const {
    return watchdog.empty() && fingerprints.empty() && barriers.empty() && nccl.empty() && ras.empty() &&
           stacks.empty() && failed.empty();
  }
};

constexpr size_t kMostCallsKept = 4096;  // of one communicator in one process

// Takes what is known of the file at `path`. Errors: it cannot be read, or is damaged; CANCELLED.
absl::Status ReadFile(const std::string& path, const std::function<bool()>& go_on, FileFacts* facts);

}  // namespace lockstep::logs

#endif  // LOCKSTEP_ANALYZER_FORMATS_LOGS_READ_FILE_H_
