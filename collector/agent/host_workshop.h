// The agent's slow work on its own threads: gathering evidence, and writing whole rings as dump files for the spool.
// Evidence never waits for dumps.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "analyzer/model/bundle.h"
#include "analyzer/util/unique_fd.h"
#include "collector/agent/spool.h"
#include "collector/common/work_lane.h"
#include "collector/rings/mark_sampler.h"
#include "proto/evidence.pb.h"
#include "proto/wire.pb.h"
#include "recorder/ring/snapshot.h"

namespace lockstep {

struct WorkshopOptions {
  std::string host, boot_id, version, rack, leaf_switch;
  // Gathers stacks and other evidence of a process (collector/evidence/evidence.h). If empty, only known facts are
  // reported. `ring` is its ring file, open during the call.
  std::function<EvidenceReport(pid_t pid, int ring)> gather;
};

struct WorkRing {
  UniqueFd fd;
  std::string path;
  int32_t rank = -1;
  pid_t pid = 0;        // the process's PID on this host; 0 after its exit
  pid_t shown_pid = 0;  // like pid, but kept after the exit; 0 to use the PID in the ring
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

// One thread owns this object. Its functions do not block.
class HostWorkshop {
 public:
  HostWorkshop(WorkshopOptions options, Spool* spool) : options_(std::move(options)), spool_(spool) {}

  // Does not repeat running work, or a dump that the spool already has. Refuses an examination while another one runs.
  void Take(WorkOrder order);
  // Takes the next piece of finished evidence; returns false if there is none. The last piece of a request has `last`
  // set.
  bool Next(HostEvidence* out);
  int fd() const { return finished_.fd(); }  // readable when evidence is ready
  const WorkshopCounters& counters() const { return counters_; }

 private:
  struct Open {
    CollectRequest request;
    size_t left = 0;
  };

  HostEvidence Envelope(const CollectRequest& request) const;
  void AnswerNothing(const CollectRequest& request, std::string problem, bool last);
  void GatherAll(const std::shared_ptr<const WorkOrder>& order);
  void Examine(const CollectRequest& request);
  void TakeReport(uint64_t request, EvidenceReport report);
  void MakeDump(const std::shared_ptr<const WorkOrder>& order);
  // These run on other threads.
  std::vector<HostEvidence> ExamineHost(const CollectRequest& request) const;
  EvidenceReport Gather(const WorkRing& ring) const;
  absl::Status WriteDump(const WorkOrder& order) const;

  const WorkshopOptions options_;
  Spool* const spool_;
  std::map<uint64_t, Open> open_;              // requests for evidence, by number
  std::set<std::pair<uint64_t, int>> making_;  // request and phase of unfinished dumps
  size_t gathering_ = 0;                       // number of processes whose evidence is not finished
  std::deque<HostEvidence> ready_;
  bool examining_ = false;
  WorkshopCounters counters_;
  DoneQueue finished_;
  WorkLane evidence_{&finished_, 4}, dumps_{&finished_};
  std::unique_ptr<WorkLane> examiner_;  // null before the first examination
};

}  // namespace lockstep
