// Runs a Job. Every rank's CPU thread issues its program asynchronously and runs ahead of its GPU as far as its waits
// allow. Every stream of a GPU works in order; a collective completes only when the GPUs of all its members have
// reached it; a send meets its receive. All ranks share one nanosecond clock (capture.h adds the hosts' own clocks).
// The run ends when nothing moves any more, or at the horizon. A job and a seed determine the run.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <queue>
#include <unordered_map>
#include <vector>

#include "tests/corpus/job.h"

namespace lockstep::corpus {

// One operation or call of a rank's CPU thread. Times are on the shared clock; kNever: has not happened.
struct Record {
  int64_t enter = 0, ret = kNever;          // times of the CPU thread
  int64_t start = kNever, finish = kNever;  // GPU times: stream reached the operation; completion
  uint32_t instr = 0;                       // index into the rank's program
  // Sequence numbers start at 1: in the communicator for a collective, per peer and direction for a send or receive.
  // Captured operations have none; each launch of the graph issues them again.
  uint32_t seq = 0;
  // Collectives: calls of the CPU thread on this communicator so far, captured ones included, replays excluded.
  uint32_t called = 0;
  uint32_t group = 0;   // number of the rank's open group; 0 if there is none
  uint32_t ticket = 0;  // number of launches on the stream so far, including this one; 0: not launched
  uint8_t stream = 0;
  bool queued = false;    // in a group that has not ended
  bool captured = false;  // recorded into a graph
  uint32_t replay = 0,
           place = 0;  // a graph's launch: its number, and the place among the captured operations, from 1
};
static_assert(sizeof(Record) == 64);  // a job has millions of records

// One launch of a rank's graph; its markers enclose all of it.
struct Launch {
  int64_t enter = 0, start = kNever, finish = kNever;
};

struct PeerProgress {
  Slot slot = kWorld;
  int32_t peer = -1;
  uint32_t sends = 0, recvs = 0;
  int64_t last_send = 0, last_recv = 0;
};

struct Progress {  // one communicator on one rank
  ring::CallKind made_by = CallKind::kNone;
  int64_t created = 0, ready = 0, ended = 0;
  bool aborted = false, finalizing = false;
  uint32_t issued = 0, done = 0, started = 0;  // collectives; started and done by this rank's GPU
  uint32_t called = 0;                         // collectives that the CPU thread called, see Record::called
  uint32_t p2p = 0, all_to_alls = 0;           // sends, receives; all-to-alls with per-peer sizes
  uint32_t launches = 0, launches_started = 0, launches_done = 0;  // launches on any stream
  int64_t issued_at = 0;
  uint64_t hash = 0;                     // rolling over the collectives' arguments: Signature() of each, added up
  std::array<uint64_t, 8> checkpoint{};  // hash at collective number s, s a multiple of 16: at [s / 16 % 8]
  int32_t async_error = 0;
  int64_t async_error_at = 0;
  std::vector<Record> recent, recent_p2p;  // the newest 16 and 8 records that left the ring, newest last
};

enum class HostStatus : uint8_t {
  kRunning,
  kInWait,
  kInCall,
  kStalled,
  kDead,
  kExited,
  kFrozen,
  kFinished,
  kLeft,
  kHorizon
};

struct Wait {
  int64_t from = 0, until = kNever;
  CallKind kind = CallKind::kNone;
  uint8_t thread = 0;
};

// Returns what collective `seq` adds to its communicator's rolling hash.
uint64_t Signature(const Instr& in, uint32_t seq);

struct StreamRun {
  uint32_t issued = 0, started = 0, done = 0;  // tickets: launches of operations
  // The last wait that was put on the stream. For the compute stream see RankRun::joined, by slot.
  uint32_t waits_for = 0, waits_after = 0;  // ticket of the compute stream; number of own tickets before the wait
};

struct RankRun {
  HostStatus status = HostStatus::kRunning;
  uint32_t pc = 0;
  int64_t now = 0;  // the CPU thread's time
  int64_t status_since = 0;
  int32_t signal = 0, exit_code = 0;
  int64_t gpu_dead_at = kNever;  // the time after which nothing completes on the GPU
  int32_t gpu_error = 0;
  uint32_t group = 0, groups = 0;  // the open group's number; groups begun
  uint32_t group_depth = 0;
  int64_t group_since = 0;
  std::array<uint32_t, 2> calls{};  // number of records of each thread
  std::array<int64_t, 2> last_call{};
  std::array<Wait, 4> waits{};  // the CPU thread's last waits; wait n (from 0) is at n % 4
  uint32_t wait_count = 0;
  uint32_t step = 0;
  std::vector<Record> ring;  // record n (from 0) at n % size
  uint64_t records = 0;
  std::array<Progress, kSlots> progress;
  std::vector<PeerProgress> peers;
  std::array<StreamRun, kStreams> streams;
  std::array<uint32_t, kSlots> joined_at{};     // 1 + program index of the wait in `joined`; 0: none
  std::array<uint32_t, kSlots> joined{};        // ticket of the slot's stream that the compute stream last waited for
  std::array<uint32_t, kSlots> joined_after{};  // tickets of the compute stream issued before the wait
  std::vector<Launch> launches;                 // launches of the graph
  uint32_t captured = 0;                        // operations in the graph
  int64_t captured_at = 0;                      // when its capture ended
};

// From `at` on, no operation of these communicators completes.
struct Cut {
  int64_t at = kNever;
  std::vector<int32_t> comms;
};

struct SimOptions {
  uint32_t ring_depth = 1024;
  int64_t horizon = kNever;
  std::vector<Cut> cuts;
  // From `at` on, these communicators' operations take `factor` times as long.
  struct Slow {
    int64_t at = 0;
    double factor = 1;
    std::vector<int32_t> comms;
  };
  std::vector<Slow> slow;
  // From `at` on, no data passes between `rank` and `peer`. With peer -1, no data passes between `rank` and any rank of
  // another host.
  struct PairCut {
    int64_t at = 0;
    int32_t rank = -1, peer = -1;
  };
  std::vector<PairCut> pair_cuts;
  // The horizon is this long after rank 0 reaches this step; -1: unused.
  int32_t live_step = -1;
  int64_t live_after = 0;
  // Cuts and pair cuts happen when rank 0 reaches this step, and their times count from there. With -1, they count from
  // the start.
  int32_t cut_step = -1;
  // Bit k: skips the instructions that fault k + 1 put into the programs.
  uint8_t without = 0;
  // Random delays on random ranks: the chance for each computation, and the length of a delay.
  double noise_chance = 0;
  int64_t noise_ns = 0;
  double compute_jitter = 0.03;  // share of each computation by which it varies, in both directions
};

// A stuck operation: global ranks inside it, and members that never reached it.
struct Standing {
  int32_t comm = -1;
  std::vector<int32_t> inside, absent;
};

class Simulator {
 public:
  Simulator(const Job& job, SimOptions options);
  ~Simulator();
  void Run();

  const Job& job() const { return job_; }
  const SimOptions& options() const { return options_; }
  const std::vector<RankRun>& ranks() const { return ranks_; }
  int64_t stop_time() const { return stop_time_; }  // when something last moved
  bool finished() const;                            // whether every CPU thread reached the end of its program
  int64_t horizon() const { return options_.horizon; }
  bool Struck(int fault) const { return struck_[static_cast<size_t>(fault)]; }
  // Returns the place in its rank's program where a fault first struck.
  uint32_t StruckAt(int fault) const { return struck_at_[static_cast<size_t>(fault)]; }
  // Returns collectives, sends and receives that are in flight at the end of the run.
  std::vector<Standing> StandingStill() const;

 private:
  struct Item;
  struct Stream;
  struct Gpu;
  struct Instance;
  struct CommRun;
  struct Event {
    int64_t at;
    uint32_t type, a, b, c;
    bool operator>(const Event& o) const { return at > o.at; }
  };
  struct Half {  // one side of a send and its receive
    int64_t at;
    int32_t rank, item;
    uint64_t bytes;
    bool captured;
  };
  struct Pair {
    std::vector<Half> sends, recvs;  // waiting halves, oldest first
  };

  void Host(int32_t r);
  bool Step(int32_t r, const Instr& in);
  void Rendezvous(int32_t r, const Instr& in);
  bool WaitForGpu(int32_t r, const Instr& in);
  void Issue(int32_t r, const Instr& in);
  void EndGroup(int32_t r);
  void Abort(int32_t r, Slot slot);
  Record* AddRecord(int32_t r, uint32_t instr, uint32_t seq, int64_t ret);
  void Evict(int32_t r, const Record& record);
  // Returns record `number` (from 1) wherever it is kept, or null if it was overwritten.
  Record* Find(int32_t r, uint64_t number, Slot slot, uint32_t instr, uint32_t seq);
  int32_t NewItem(int32_t r);
  void Append(int32_t r, uint8_t stream, int32_t item);
  void DependOnCompute(int32_t r, int32_t item);
  void Compute(int32_t r, int64_t ns);
  void Join(int32_t r, const Instr& in);
  void WaitOnCompute(int32_t r, Slot slot);
  uint8_t StreamFor(int32_t r, const Instr& in) const;
  // Puts operations that start together on a stream, as one launch.
  void Enqueue(int32_t r, uint8_t stream, int32_t item);
  // Returns the stream that has the member's part of the collective at its head.
  uint8_t StreamIn(int32_t r, Slot slot, const Instance& instance) const;
  void CheckWait(int32_t r);
  void FreeItem(int32_t r, int32_t item);
  void Advance(int32_t r, uint8_t stream);
  void Complete(int32_t r, uint8_t stream, int64_t at);
  void Arrive(int32_t r, Slot slot, int32_t item, int64_t at);
  void ArriveCollective(int32_t r, Slot slot, int32_t item, int64_t at);
  void ArriveGroup(int32_t r, Slot slot, int32_t item, int64_t at);
  void FinishCollective(const Event& event);
  void FinishPair(const Event& event);
  void FinishPartly(const Event& event);
  void LaunchGraph(int32_t r, const Instr& in);
  // Writes the compute stream's marker before or after launch `number`.
  void Mark(int32_t r, uint32_t number, bool end);
  void MarkReached(int32_t r, uint32_t number, bool end, int64_t at);
  void BreakComms(int32_t r, int64_t at, bool network_only);
  void LeaveOnError(int32_t r);
  Instance* Open(int32_t comm, uint32_t seq, uint32_t kind);
  void Resume(int32_t r, int64_t at);
  void BeginStep(int32_t r, int32_t step);
  void ApplyCuts(int64_t from);
  bool PairIsCut(int32_t a, int32_t b, int64_t at) const;
  int64_t Duration(const Comm& comm, const Instr& in, int64_t at);
  int64_t Jitter(int32_t r, int64_t low, int64_t high);

  const Job& job_;
  SimOptions options_;
  std::vector<RankRun> ranks_;
  std::vector<Gpu> gpus_;
  std::vector<CommRun> comms_;
  std::unordered_map<uint64_t, Pair> pairs_;
  struct Meeting {
    uint32_t arrived = 0;
    int64_t last = 0;
    std::vector<int32_t> hosts;
  };
  std::map<std::pair<int32_t, uint32_t>, Meeting> meetings_;
  struct PairEvent {
    std::array<int32_t, 2> rank, item;
    int32_t comm;
  };
  std::vector<PairEvent> pair_events_;
  std::vector<Standing> cut_pairs_;  // sends and receives that met on a broken link
  std::vector<uint32_t> free_pair_events_;
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> queue_;
  std::array<bool, 8> struck_{};
  std::array<uint32_t, 8> struck_at_{};
  int64_t stop_time_ = 0, clock_ = 0;
};

}  // namespace lockstep::corpus
