// The large job of tests/jobmodel at any size, as its recorders would show it. Its ranks advance evenly. In a step of
// choice one rank stops before a tensor-parallel call, and the others wait where that leaves them.
#ifndef LOCKSTEP_TESTS_BENCH_FLEET_SYNTHETIC_JOB_H_
#define LOCKSTEP_TESTS_BENCH_FLEET_SYNTHETIC_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "recorder/ring/snapshot.h"
#include "tests/jobmodel/large_job.h"

namespace lockstep::fleet {

constexpr int kRanksPerHost = jobmodel::kLargeJobTp;

class SyntheticJob {
 public:
  SyntheticJob(int ranks, int stages, int64_t step_ns);

  // Starts again at `t0`; `fault_rank` stops in step `fault_step` (-1: none does).
  void Restart(uint32_t restart_count, int64_t t0, int fault_rank, int64_t fault_step);
  // When the rank stops; INT64_MAX: never.
  int64_t fault_ns() const;
  uint32_t restart_count() const { return restart_count_; }

  // What never changes of a rank's digest, and what does.
  void Fill(int rank, ring::Snapshot* snapshot) const;
  // Of ranks `first` to `first + count - 1`, which must be one host's.
  void Move(int first, int count, int64_t now, ring::Snapshot* snapshots) const;
  // After Move: operations in flight and the last of each communicator (as in a digest), or the newest ones (as in a
  // whole ring).
  void AddRecent(int rank, ring::Snapshot* snapshot) const;
  void AddOps(int rank, size_t most, ring::Snapshot* snapshot) const;
  static constexpr int64_t kSettleNs = 20'000'000;  // until all ranks have stopped because of the fault
  bool will_stand() const { return fault_step_ >= 0; }
  bool Stalled(int64_t now) const { return now >= fault_ns() + kSettleNs; }

  int ranks() const { return ranks_; }
  std::string HostOf(int host) const;

 private:
  // The place of a rank.
  struct Motion {
    int stage = 0;
    int64_t now = 0, gpu = 0, issued = 0;
    bool stalled = false;
    int due_stream = -1;
    uint64_t count[jobmodel::kLanes] = {}, stream_issued[jobmodel::kLaneStreams] = {},
             stream_completed[jobmodel::kLaneStreams] = {};
    int64_t last[jobmodel::kLanes] = {};
  };
  Motion MotionOf(int rank, int64_t now) const;
  void Apply(const Motion& motion, ring::Snapshot* snapshot) const;
  int Replica(int rank) const { return layout_.PlaceOf(rank).dp; }
  int Stage(int rank) const { return layout_.PlaceOf(rank).pp; }
  const jobmodel::StageProgram& ProgramOf(int stage) const { return programs_[static_cast<size_t>(stage)]; }
  int64_t TimeOf(int stage, int64_t position) const;
  int64_t GpuAt(int rank, int64_t now) const;
  int64_t IssuedAt(int rank, int64_t now) const;
  ring::OpSnapshot OpAt(int rank, int64_t position, int64_t gpu) const;

  const int ranks_, stages_;
  const int64_t step_ns_;
  jobmodel::Layout layout_;
  const std::vector<jobmodel::StageProgram> programs_;  // by stage
  uint32_t restart_count_ = 0;
  int64_t t0_ = 0, fault_step_ = -1;
  int fault_rank_ = -1;
  jobmodel::Stalled stalled_;
};

}  // namespace lockstep::fleet

#endif  // LOCKSTEP_TESTS_BENCH_FLEET_SYNTHETIC_JOB_H_
