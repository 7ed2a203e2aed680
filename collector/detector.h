// Tells moving, late and hung apart. Pure: fed with views and times, no clock and no I/O of its own, so that a test can
// run an hour of a job in a millisecond. docs/run.md gives the rule in words.
#ifndef LOCKSTEP_COLLECTOR_DETECTOR_H_
#define LOCKSTEP_COLLECTOR_DETECTOR_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collector/digest_view.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Nanoseconds.
struct DetectorLimits {
  int64_t late_after = 5'000'000'000;
  int64_t hang_after = 300'000'000'000;       // hung whatever the root does
  int64_t host_stall_after = 10'000'000'000;  // a root that sleeps outside NCCL
  int64_t gpu_stall_after = 10'000'000'000;   // a root whose GPU, or whose collective, stands still
  int64_t warm_up = 60'000'000'000;           // communicators that have hardly been used, and ranks still in init
  int64_t dead_settle = 1'000'000'000;        // a root that is dead
  int64_t sample_gap = 1'000'000'000;         // least time between the two samples of a root's CPU and I/O
};

// Times between steps of one communicator, the last 256.
class GapHistory {
 public:
  void Add(int64_t gap_ns);
  // 99th percentile, rounded towards the smaller; 0 while there is none.
  int64_t P99() const;
  size_t size() const { return count_ < gaps_.size() ? count_ : gaps_.size(); }

 private:
  std::array<int64_t, 256> gaps_{};
  size_t count_ = 0;
};

// A process the analysis names as the root, as /proc and its ring show it.
struct RootView {
  int32_t slot = -1;
  bool ended = false;                  // its process is gone, however it ended
  bool stopped = false;                // state T or t
  bool in_recorded_call = false;       // inside an NCCL call or a CUDA host wait: using CPU there is no progress
  int64_t sample_gap_ns = 0;           // 0: not sampled twice
  int64_t cpu_ns = -1, io_bytes = -1;  // between the samples; -1 unknown
};

// What the analysis said of a bundle of digests.
struct RootFinding {
  FindingKind kind = FINDING_UNSPECIFIED;
  uint64_t comm = 0;  // 0: none
  std::vector<RootView> roots;
  std::vector<int32_t> involved;  // slots of the roots and of everybody in the chain; empty: all
};

struct Decision {
  bool hung = false;
  int64_t stalled_ns = 0;  // how long the involved ranks have not moved
  int64_t limit_ns = 0;    // what it is measured against
  std::string reason;      // one clause, for people
};

class Detector {
 public:
  explicit Detector(const DetectorLimits& limits) : limits_(limits) {}

  // The state of all ranks at `now`. Views of ranks that have ended stay in the list.
  void Observe(int64_t now, const std::vector<DigestView>& ranks);
  // Nothing is held against the time before `now`: the watcher or the whole job was stopped.
  void Rebase(int64_t now);

  // Somebody waits for longer than the least limit, or for a rank that has ended: worth an analysis.
  bool Suspicious(int64_t now) const;
  // Longest wait of a live rank at the last observation, and who.
  int64_t LongestWait(int64_t now, int32_t* slot, std::string* doing) const;
  // Whether the job is hung, given the root.
  Decision Judge(int64_t now, const RootFinding& finding) const;
  // When any of `slots` last made progress (all when empty).
  int64_t LastProgress(const std::vector<int32_t>& slots) const;
  // A wait that ended by itself after `stalled_ns` was legal: the next one may be twice as long before it counts.
  void Recovered(int64_t stalled_ns);
  int64_t LimitOf(uint64_t comm) const;

 private:
  struct RankState {
    DigestView view;
    bool seen = false;
    int64_t progress_ns = 0;
    int64_t waiting_since = 0;  // 0: not waiting
  };
  struct CommState {
    uint64_t total = 0;       // highest of the members
    int64_t issued_ns = 0;    // when the last of these was issued
    int64_t advanced_ns = 0;  // look that saw it first
    int64_t quiet_ns = 0;     // last look that saw nothing new
    GapHistory gaps;
  };
  void NoteGap(int64_t now, uint64_t total, int64_t issued_ns, CommState* comm);
  bool Warm(uint64_t comm) const;

  const DetectorLimits limits_;
  std::map<int32_t, RankState> ranks_;
  std::map<uint64_t, CommState> comms_;
  int64_t learned_ = 0;
  int64_t rebased_ns_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_DETECTOR_H_
