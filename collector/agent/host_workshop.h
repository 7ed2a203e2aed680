// The agent's slow work on its own threads: evidence of processes, and whole rings as dump files for the spool.
// Evidence does not wait for dumps.
#ifndef LOCKSTEP_COLLECTOR_AGENT_HOST_WORKSHOP_H_
#define LOCKSTEP_COLLECTOR_AGENT_HOST_WORKSHOP_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/model/bundle.h"
#include "collector/agent/spool.h"
#include "collector/rings/mark_sampler.h"
#include "proto/evidence.pb.h"
#include "proto/wire.pb.h"
#include "recorder/ring/snapshot.h"

namespace lockstep {

struct WorkshopOptions {
  std::string host, boot_id, version, rack, leaf_switch;
  std::function<EvidenceReport(pid_t pid, int ring)> gather;  // empty: only known facts are reported
  size_t evidence_at_once = 4;                                // processes
};

struct WorkRing {
  int fd = -1;  // taken over
  std::string path;
  int32_t rank = -1;
  pid_t pid = 0;        // its number here; 0: it has ended
  pid_t shown_pid = 0;  // the same for an ended process; 0: unknown
  Process process;
  std::shared_ptr<const MarkTimes> marks;  // observed times of its GPU marks; may be null
  std::optional<ring::Snapshot> at_end;    // digest of an ended process at its end
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

  // A repeated order of a running request, or of a file that the spool knows, starts no new work.
  virtual void Take(WorkOrder order) = 0;
  virtual void Cancel(uint64_t request) = 0;
  // Finished evidence; the last of a request has `last` set.
  virtual bool Next(HostEvidence* out) = 0;
  virtual int fd() const = 0;  // readable when there is evidence
  virtual void ClearWake() = 0;
  virtual WorkshopCounters counters() const = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_AGENT_HOST_WORKSHOP_H_
