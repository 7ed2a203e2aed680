// The large job of tests/jobmodel at any size, as its recorders would show it. All ranks advance at the same speed. In
// a chosen step, one rank stops before a tensor-parallel call, and the other ranks get stuck because of it.
#pragma once

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

  // Starts the job again at `t0`. `fault_rank` stops in step `fault_step`; -1: no rank stops.
  void Restart(uint32_t restart_count, int64_t t0, int fault_rank, int64_t fault_step);
  // Returns the time at which the faulty rank stops; a time that is never reached if no rank stops.
  int64_t fault_ns() const;
  uint32_t restart_count() const { return restart_count_; }

  // Sets the fields of a rank's snapshot that never change.
  void Fill(int rank, ring::Snapshot* snapshot) const;
  // Sets the changing fields of ranks `first` to `first + count - 1`, which must be on one host.
  void Move(int first, int count, int64_t now, ring::Snapshot* snapshots) const;
  // Call after Move. AddRecent adds operations in flight and the last operation of each communicator, as in a digest;
  // AddOps adds the newest `most` operations, as in a whole ring.
  void AddRecent(int rank, ring::Snapshot* snapshot) const;
  void AddOps(int rank, size_t most, ring::Snapshot* snapshot) const;
  static constexpr int64_t kSettleNs = 20'000'000;  // time from the fault until no rank moves
  bool will_stand() const { return fault_step_ >= 0; }
  bool Stalled(int64_t now) const { return now >= fault_ns() + kSettleNs; }

  int ranks() const { return ranks_; }
  std::string HostOf(int host) const;

 private:
  // A rank's progress at one time.
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
  const std::vector<jobmodel::StageProgram> programs_;  // program of each stage
  uint32_t restart_count_ = 0;
  int64_t t0_ = 0, fault_step_ = -1;
  int fault_rank_ = -1;
  jobmodel::Stalled stalled_;
};

}  // namespace lockstep::fleet
