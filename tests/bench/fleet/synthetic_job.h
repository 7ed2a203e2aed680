// A job of any size as its recorders would show it: tensor parallel 8 inside a host, pipeline (1F1B), data parallel, an
// embedding group and the world. Its ranks move on evenly; at a step and rank of choice one rank stops in front of a
// tensor-parallel call, and everybody else stands where that leaves them.
#ifndef LOCKSTEP_TESTS_BENCH_FLEET_SYNTHETIC_JOB_H_
#define LOCKSTEP_TESTS_BENCH_FLEET_SYNTHETIC_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "recorder/ring/snapshot.h"

namespace lockstep::fleet {

constexpr int kRanksPerHost = 8;

class SyntheticJob {
 public:
  SyntheticJob(int ranks, int stages, int64_t step_ns);

  // Begins anew at `t0`; `fault_rank` stops in step `fault_step` (-1: nobody does).
  void Restart(uint32_t restart_count, int64_t t0, int fault_rank, int64_t fault_step);
  // When the rank stops; INT64_MAX: never.
  int64_t fault_ns() const;
  uint32_t restart_count() const { return restart_count_; }

  // What never changes of a rank's digest, and what does.
  void Fill(int rank, ring::Snapshot* snapshot) const;
  // Of ranks `first` to `first + count - 1`, which must be one host's.
  void Move(int first, int count, int64_t now, ring::Snapshot* snapshots) const;
  // After Move: what is under way and the last of each communicator (a digest's), or the last so many (a whole ring's).
  void AddRecent(int rank, ring::Snapshot* snapshot) const;
  void AddOps(int rank, size_t most, ring::Snapshot* snapshot) const;
  static constexpr int64_t kSettleNs = 20'000'000;  // until everybody stands where the fault leaves them
  bool will_stand() const { return fault_step_ >= 0; }
  bool Stalled(int64_t now) const { return now >= fault_ns() + kSettleNs; }

  int ranks() const { return ranks_; }
  std::string HostOf(int host) const;

 private:
  enum Lane { kTp, kDp, kEmbedding, kWorld, kSendNext, kSendPrev, kRecvNext, kRecvPrev, kLanes };
  struct Call {
    Lane lane;
    ring::CallKind kind;
    uint64_t count;
    uint8_t reduction;
  };
  struct Program {
    std::vector<Call> calls;
    std::vector<std::vector<uint64_t>> before;  // [call][lane]: calls of the lane before it; one more entry than calls
  };
  // Where a rank stands.
  struct Motion {
    int stage = 0;
    int64_t now = 0, gpu = 0, issued = 0;
    bool stalled = false;
    int due_stream = -1;
    uint64_t count[kLanes] = {}, stream_issued[3] = {}, stream_completed[3] = {};
    int64_t last[kLanes] = {};
  };
  struct Group {
    uint64_t id = 0;
    std::string name;
    int member = 0, size = 0;
  };
  static Program StepOf(int stage, int stages);
  static int StreamOf(int lane) { return lane == kTp ? 0 : lane >= kSendNext ? 1 : 2; }
  void Play();
  Motion MotionOf(int rank, int64_t now) const;
  void Apply(const Motion& motion, ring::Snapshot* snapshot) const;
  int Replica(int rank) const { return rank / kRanksPerHost % replicas_; }
  int Stage(int rank) const { return rank / kRanksPerHost / replicas_; }
  uint64_t Count(int stage, int64_t position, int lane) const;
  int64_t TimeOf(int stage, int64_t position) const;
  Group GroupOf(int rank, int which) const;
  int64_t GpuAt(int rank, int64_t now) const;
  int64_t IssuedAt(int rank, int64_t now) const;
  ring::OpSnapshot OpAt(int rank, int64_t position, int64_t gpu) const;

  const int ranks_, stages_, replicas_;
  const int64_t step_ns_;
  std::vector<Program> programs_;  // by stage
  uint32_t restart_count_ = 0;
  int64_t t0_ = 0, fault_step_ = -1;
  int fault_rank_ = -1;
  std::vector<int64_t> here_,
      elsewhere_;  // calls of the last step that are done, by stage: the fault's replica, the others
};

}  // namespace lockstep::fleet

#endif  // LOCKSTEP_TESTS_BENCH_FLEET_SYNTHETIC_JOB_H_
