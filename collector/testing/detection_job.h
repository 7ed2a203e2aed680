// A training job on several hosts in simulated time, with its agents and collector. It has faults, or behavior that
// only looks like a fault. Lateness, HostProgress, the ring loader, digests, DigestRound with the analysis, and
// Detector are production code. Only processes, clocks and the network are simulated. The hosts' clocks have different
// origins.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "analyzer/formats/ring/loader.h"
#include "analyzer/util/time_units.h"
#include "collector/detect/detector.h"
#include "collector/detect/lateness.h"
#include "collector/detect/progress.h"
#include "collector/service/core/digest_round.h"

namespace lockstep::testing {

constexpr int64_t kEver = INT64_MAX / 4;

// What a process does outside NCCL.
enum class Doing {
  kCompute,   // uses CPU
  kSleep,     // sleeps without activity
  kIo,        // reads or writes continuously
  kIoBursts,  // 8 MiB every five seconds
  kTrickle,   // 64 KiB a second
  kDisk,      // uninterruptible sleep, without I/O
  kGpu,       // computes on its GPU: CPU waits of three seconds, one after another
  kServe,     // an event loop without events
  kStopped,
  kDead,
};

struct Pause {
  int rank = 0;
  int64_t step = 0;  // the pause comes before this step; -1: before the rank creates its second communicator
  Doing doing = Doing::kSleep;
  int64_t for_ns = kEver;
};

// A slow operation. In `comm`, 0 is the communicator of the rank's host, 1 crosses hosts, 2 has all ranks.
struct SlowOp {
  int64_t step = 0;
  int comm = 2;
  int64_t for_ns = kEver;
  uint64_t count = 1000;
  int stalled_rank = -1;  // this rank's GPU never starts the operation
};

struct JobPlan {
  int ranks = 8;
  int ranks_a_host = 4;
  int64_t step_ns = 500 * kMs;
  int64_t operations_a_launch = 1;  // number of operations per graph launch
  int64_t launch_ns = 2 * kMs;      // how long the last operation of a step takes on the GPU
  double jitter = 0.05;
  bool marks = true;
  uint64_t seed = 1;
  std::vector<Pause> pauses;
  std::vector<SlowOp> slow;
  int lost_host = -1;
  int64_t lost_ns = kEver;
  // Further pauses; called before every step of every rank.
  std::function<std::optional<Pause>(int rank, int64_t step, int64_t now, std::mt19937_64* random)> more;
};

class WatchedJob {
 public:
  explicit WatchedJob(JobPlan plan);
  // Runs for `duration` nanoseconds or, with `stop`, until a hang is declared.
  void Run(int64_t duration, bool stop = true);

  int64_t now() const { return now_; }
  int64_t steps() const;  // number of steps that the slowest rank has completed
  const std::vector<Decision>& decisions() const { return decisions_; }
  const Decision* hung() const;                             // the first declared hang; null if there is none
  int64_t last_progress() const { return last_progress_; }  // when any rank last issued or finished an operation

 private:
  struct Op {
    uint64_t seq = 0;
    int entered = 0;
    int64_t last_ns = 0, done_ns = -1;
  };
  struct Comm {
    std::vector<int> members;
    std::deque<Op> ops;
    uint64_t first = 1;  // sequence number of ops.front()
    int making = 0;      // number of members inside the call that creates the communicator
    int64_t made_ns = -1;
  };
  struct Issued {
    int comm = 0;
    uint64_t seq = 0;
    int64_t ns = 0;
    bool done = false;
  };
  struct RankState {
    int comm[3] = {0, 0, 0};
    int member[3] = {0, 0, 0};
    uint64_t issued[3] = {0, 0, 0};
    int64_t issued_ns[3] = {0, 0, 0}, made_ns[3] = {-1, -1, -1};
    int64_t clock = 0, step = 0, since = 0, last_call = 0;
    int at = 0;  // the rank's position in the step
    Doing doing = Doing::kCompute;
    bool waits = false, initializing = false, asked = false;
    int making = -1;
    std::deque<Issued> flight;
    uint64_t tickets = 0, completed = 0;
    int64_t cpu = 0, io = 0, counted_ns = 0;
    // The rank's last sample.
    int64_t sample_ns = 0, sample_cpu = 0, sample_io = 0;
    // The sample that the agent on the rank's host has seen.
    int64_t seen_ns = 0, seen_cpu = 0, seen_io = 0, seen_idle_ns = 0;
    Process process;
  };
  struct Host {
    Lateness lateness;
    HostProgress progress;
    int64_t offset = 0, next_beat = 0, sampled_ns = 0;
    bool lost = false;
    int64_t heard_ns = 0;
  };
  bool Step(int rank, int64_t until);
  void Issue(RankState* rank, int which);
  int64_t DoneAt(int comm, uint64_t seq);
  void Advance(int64_t until);
  ring::Snapshot Ring(int rank) const;
  void Look(int host);
  void Sample(int rank);
  void Watch(int rank);
  DigestEnvelope Answer(int host, const std::vector<int32_t>& wanted);
  void Gather();
  void Resample();
  void Judge(bool all);
  RankMotion MotionOf(int rank) const;

  const JobPlan plan_;
  std::mt19937_64 random_;
  int64_t now_ = 10 * kSecond;
  std::vector<Comm> comms_;
  std::vector<RankState> ranks_;
  std::vector<Host> hosts_;
  Detector detector_{DetectorLimits{}};
  std::vector<Decision> decisions_;
  int64_t last_progress_ = 0, gather_at_ = kEver, resample_at_ = kEver;
  std::vector<int32_t> to_sample_;
  int64_t asked_ns_ = 0;
  std::unique_ptr<DigestRound> round_;
};

}  // namespace lockstep::testing
