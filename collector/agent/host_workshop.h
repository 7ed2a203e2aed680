// The agent's slow work on its own threads: gathering evidence, and writing whole rings as dump files for the spool.
// Evidence never waits for dumps.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/model/bundle.h"
#include "analyzer/util/unique_fd.h"
#include "collector/agent/spool.h"
#include "collector/rings/mark_sampler.h"
#include "proto/evidence.pb.h"
#include "proto/wire.pb.h"
#include "recorder/ring/snapshot.h"

namespace lockstep {

struct WorkshopOptions {
  std::string host, boot_id, version, rack, leaf_switch;
  std::function<EvidenceReport(pid_t pid, int ring)> gather;  // if empty, only known facts are reported
  size_t evidence_at_once = 4;                                // number of processes
};

struct WorkRing {
  UniqueFd fd;
  std::string path;
  int32_t rank = -1;
  pid_t pid = 0;        // the process's PID on this host; 0 after its exit
  pid_t shown_pid = 0;  // the PID of a process that exited; 0 if unknown
  Process process;
  std::shared_ptr<const MarkTimes> marks;  // observed times of the ring's GPU progress markers; may be null
  std::optional<ring::Snapshot> at_end;    // digest of a process that exited, taken at its exit
};

struct WorkOrder {
  CollectRequest request;
  std::vector<WorkRing> rings;
};

struct WorkshopCounters {
  uint64_t dumps = 0, dumps_failed = 0, evidence = 0;
};

// Any thread may call its functions; they do not block.
class HostWorkshop {
 public:
  static absl::StatusOr<std::unique_ptr<HostWorkshop>> Start(const WorkshopOptions& options, Spool* spool);
  virtual ~HostWorkshop() = default;

  // Starts no new work if the request is already running, or if the spool already has the file.
  virtual void Take(WorkOrder order) = 0;
  // Returns finished evidence. The last piece of a request has `last` set.
  virtual bool Next(HostEvidence* out) = 0;
  virtual int fd() const = 0;  // readable when evidence is ready
  virtual void ClearWake() = 0;
  virtual WorkshopCounters counters() const = 0;
};

}  // namespace lockstep
