// The contents of one text file, independent of other files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "analyzer/formats/logs/exceptions.h"
#include "analyzer/formats/logs/fingerprint.h"
#include "analyzer/formats/logs/horovod.h"
#include "analyzer/formats/logs/inspector.h"
#include "analyzer/formats/logs/launcher.h"
#include "analyzer/formats/logs/nccl_info.h"
#include "analyzer/formats/logs/notices.h"
#include "analyzer/formats/logs/ras.h"
#include "analyzer/formats/logs/stacks.h"
#include "analyzer/formats/logs/watchdog.h"

namespace lockstep::logs {

// The writer of a line; see Line.
struct Speaker {
  int32_t rank = -1, task = -1, local = -1;
};

template <typename What>
struct Said {
  What what;
  Speaker who;
  int64_t number = 0;  // number of the line
};

// A send or receive, and its number among calls of its kind with the same peer, counted from 1.
struct NcclTransfer {
  int64_t number_in_process = 0, number = 0;
  NcclCall call;
};

// Calls of one process on one communicator, in order.
struct NcclComm {
  uint64_t address = 0, id = 0;
  int32_t rank = -1, size = 0;       // rank inside the communicator; -1 if not printed
  bool begun = false, made = false;  // its creation has begun, and has ended
  ring::CallKind created_by = ring::CallKind::kNone;
  size_t parent = SIZE_MAX;        // index in NcclProcess::comms; SIZE_MAX if it is not a split of a known communicator
  int64_t ordinal = 0, color = 0;  // the split's number among the splits of its parent, from 1; and its color
  int64_t splits = 0;              // number of splits made from it so far
  int64_t calls = 0;               // number of collectives
  bool by_count = true;            // the opCount grew with each call
  uint64_t first_op_count = 0, last_op_count = 0;
  // Number in the process, and call; a ring buffer once it is full.
  std::vector<std::pair<int64_t, NcclCall>> newest;
  std::map<std::pair<ring::CallKind, int32_t>, int64_t> transfers;  // number of calls by kind and peer
  std::vector<NcclTransfer> newest_transfers;                       // a ring buffer once it is full
  int64_t all_transfers = 0;
};

struct NcclProcess {
  std::string host;
  int64_t pid = 0;
  int32_t gpu = -1;
  int32_t global_rank = -1;  // from a call
  std::string pci;           // address of its GPU; empty if not printed
  Speaker who;
  int64_t number = 0;  // number of its first line
  int64_t calls = 0;
  std::vector<NcclComm> comms;  // in order of first use; empty if the process printed neither a call nor a creation
};

struct FileFacts {
  std::string path;
  int32_t rank = -1;  // from the file's name; set by the caller
  std::vector<Said<WatchdogLine>> watchdog;
  std::vector<Said<MonitorLine>> monitors;
  std::vector<Said<Notice>> notices;
  std::vector<Said<FingerprintLine>> fingerprints;
  std::vector<Said<BarrierLine>> barriers;
  std::vector<Said<StoreBarrierLine>> store_barriers;
  std::vector<NcclProcess> nccl;
  std::vector<InspectorComm> inspected;
  StalledTensors stalled;
  RasReports ras;
  std::vector<RankProcess> processes;
  std::vector<PrintedStack> stacks;
  std::vector<FailedWorker> failed;
  std::set<int32_t> terminated;  // ranks that a launcher ended
  std::vector<Raised> raised;
  std::set<int32_t> ranks;          // ranks that printed lines, from "[rank3]:"
  std::set<int32_t> tasks, locals;  // the numbers in prefixes of lines
  std::set<std::string> pods;       // only the first few
  int32_t world = 0;                // the largest world size in any line
  bool cut = false;                 // some data was dropped because of a limit

  // Returns true if no line shows how far a rank is, or how it ended.
  bool Empty() const {
    return watchdog.empty() && monitors.empty() && fingerprints.empty() && barriers.empty() && store_barriers.empty() &&
           nccl.empty() && inspected.empty() && ras.largest == 0 && ras.comms.empty() && stacks.empty() &&
           failed.empty() && notices.empty() && raised.empty() && ras.odd.empty() && processes.empty() &&
           stalled.missing.empty();
  }
};

constexpr size_t kMostCallsKept = 4096;  // maximum for one communicator in one process

// Reads the file at `path`. Fails if it is unreadable or damaged. Returns Cancelled if `go_on` returns false.
absl::Status ReadFile(const std::string& path, const std::function<bool()>& go_on, FileFacts* facts);

}  // namespace lockstep::logs
