// The wait graph shows which rank waits for which. Each rank's process is a node, because it must issue calls. Each
// in-order queue of its GPU is a node, because it must finish what was issued. Each collective in flight is a node, so
// that its members are examined only once. Each rank without data that others wait for is a node, too. Takes time
// linear in the operations in flight and their members.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "analyzer/engine/facts/init.h"
#include "analyzer/engine/facts/mismatch.h"
#include "analyzer/engine/facts/model.h"

namespace lockstep {

enum class Why : uint8_t {
  kNotIssued,    // the target has not issued the operation
  kBehind,       // the target has issued the operation, but its queue still executes something older
  kNotStarted,   // the target has issued the operation, but its stream has not reached it although others have
  kDead,         // the target's process has ended or is stopped
  kNoData,       // nothing is known about the target
  kOwnGpu,       // the process waits for its own GPU
  kInit,         // the target has not entered the creation of the communicator
  kIn,           // from a queue to its collective, or from a process to the creation of a communicator
  kStreamOrder,  // another stream of the same GPU must advance first
  kLaunchOrder,  // another stream of the same GPU executes later work, which may have to end first
  kOutside,      // the process waits outside NCCL for another process, which is stuck and waits for nobody
};

struct Edge {
  uint32_t to = 0;
  Why why = Why::kNotIssued;
  // The operation that the waiting rank or its GPU is in. Null for creations, kOutside, edges of a collective, and if
  // the record was lost.
  const Op* op = nullptr;
  uint32_t comm = kNoIndex;
  int64_t lost_seq = kNone;  // number of the collective if nobody's record still contains it (`op` is null)
};

// Why a queue is stuck although it waits for no rank.
enum class Front : uint8_t {
  kIdle,           // nothing in flight
  kWaits,          // has edges
  kAllArrived,     // every member is in the operation, and no member completes it
  kNotReached,     // this rank's stream did not reach the operation; its peers' streams did, or the peers left no data
  kPeersFinished,  // peers completed the operation, but this rank's GPU did not
  kMismatched,     // the members' calls differ
  kOverwritten,    // the record of the current operation was overwritten
  kFailed,         // the GPU reported an error, so none of the rank's work will complete, even if another rank is late
};

// Returns whether the GPU is known to hang on its own.
inline bool IsFaulty(Front front) {
  return front == Front::kPeersFinished || front == Front::kNotReached || front == Front::kFailed;
}

struct GpuFront {
  Front front = Front::kIdle;
  const Op* op = nullptr;
  uint32_t comm = kNoIndex;
  int32_t mismatch = -1;     // index into the given mismatches
  int64_t lost_seq = kNone;  // number of the collective if its record was overwritten (`op` is null)

  bool InCollective() const { return op != nullptr && ring::IsCollective(op->kind); }
  bool InExchange() const { return op != nullptr && ring::IsPointToPoint(op->kind); }
};

// An in-order queue of a GPU: one stream. If the record does not show what each stream started, the queue is all work
// that a rank has in flight.
struct Queue {
  int32_t rank = -1;            // index into Bundle::ranks
  uint32_t stream = kNoIndex;   // index into Rank::streams; kNoIndex for all streams
  std::vector<uint32_t> units;  // indexes into RankView::in_flight, oldest first
  GpuFront front;
  // Overwritten operations that are older than the units. Only counters show them: the communicator and number of the
  // collectives. At least one of these is in flight. If `overwritten` is set and `lost` is empty, other operations were
  // lost.
  std::vector<std::pair<uint32_t, int64_t>> lost;
  bool overwritten = false, lost_started = false;  // lost_started: the GPU started a lost operation (rings only)
  uint32_t lost_exchange = kNoIndex;               // communicator of lost sends or receives
  // The watchdog had no time to notice completions before the dump, so operations that peers completed count as
  // complete here, too. `noticed_late` is the number of these units, which are the oldest.
  bool late_to_notice = false;
  size_t noticed_late = 0;
};

// A process that stopped on its own although its GPU has waiting work. Other ranks with the same role continued past
// that place, although their GPUs have at least the same unfinished work. So the process did not stop because of that
// work.
struct StoppedHost {
  // A rank with the same role that continued, as an index into Bundle::ranks; -1 if none is known.
  int32_t witness = -1;
  int32_t witnesses = 0;     // number of such ranks
  const Op* next = nullptr;  // the first call of that rank that the stopped rank did not make
};

// Returns, for each rank index, where ranks with the same role continued although this rank stopped. Ranks in
// `distrusted` are ignored, because their records do not show what their GPUs completed.
std::vector<StoppedHost> FindStoppedHosts(const Model& model, const std::vector<bool>& distrusted);

// The model and the mismatches must outlive the graph.
class WaitGraph {
 public:
  WaitGraph(const Model& model, const std::vector<Mismatch>& mismatches);

  enum class NodeKind : uint8_t { kHost, kQueue, kCollective, kMissing };
  NodeKind Kind(uint32_t node) const {
    return node < hosts_ ? NodeKind::kHost : node < fixed_ ? NodeKind::kQueue : extra_[node - fixed_].kind;
  }
  static uint32_t HostNode(size_t rank_index) { return static_cast<uint32_t>(rank_index); }
  uint32_t QueueNode(uint32_t queue) const { return hosts_ + queue; }
  const Queue& QueueOf(uint32_t node) const { return queues[node - hosts_]; }
  uint32_t NodeOf(const Queue& queue) const { return QueueNode(static_cast<uint32_t>(&queue - queues.data())); }
  // Returns the queues of a rank, at least one.
  std::span<const Queue> QueuesOf(size_t rank_index) const {
    return {queues.data() + first_queue_[rank_index], queues.data() + first_queue_[rank_index + 1]};
  }
  // Returns the queue's oldest operation in flight, or null.
  const Op* OldestIn(const Queue& queue) const {
    const auto& ops = model_.bundle.ranks[queue.rank].ops;
    return queue.units.empty() ? nullptr : &ops[model_.ranks[queue.rank].in_flight[queue.units[0]].ops[0]];
  }
  // Returns the node's rank index; -1 for a rank without data and for a collective.
  int32_t RankOf(uint32_t node) const {
    return node < hosts_ ? static_cast<int32_t>(node) : node < fixed_ ? queues[node - hosts_].rank : -1;
  }
  bool IsHost(uint32_t node) const { return node < hosts_; }
  int32_t MissingRank(uint32_t node) const { return extra_[node - fixed_].missing; }
  // Returns the nodes of the rank's process and queues.
  std::vector<uint32_t> NodesOf(size_t rank_index) const;
  // Returns the ranks of these nodes, as indexes into Bundle::ranks.
  std::set<int32_t> RanksOf(const std::vector<uint32_t>& nodes) const;
  // Returns the queue that contains a unit of the rank, and the unit's position in it.
  std::pair<uint32_t, uint32_t> PlaceOf(size_t rank_index, uint32_t unit) const {
    return place_of_unit_[first_unit_[rank_index] + unit];
  }

  // Returns for each node whether it waits, directly or through others, for a process or queue of these ranks.
  std::vector<bool> WaitingFor(const std::vector<int32_t>& rank_indexes) const;

  // Returns the only member that completed the collective at this front, by its record or counters, as an index into
  // Bundle::ranks. At least two others must have the operation in flight. Returns -1 if there is no such member. A hung
  // GPU keeps one member from completing the operation, not all members except one. Not thread-safe.
  int32_t AloneDone(const GpuFront& front) const;

  std::vector<std::vector<Edge>> edges;
  std::vector<std::vector<uint32_t>> back;  // reversed edges
  std::vector<Queue> queues;                // sorted by rank, then by first use
  std::vector<StoppedHost> stopped;         // indexed by rank index
  // The ends of the graph: strongly connected components without outgoing edges, if they have several nodes, or others
  // wait for them, or the process or GPU is stuck by itself. Each is ascending.
  std::vector<std::vector<uint32_t>> sinks;
  std::vector<PendingCreation> creations;  // communicators that are being created; each is a node, like a collective

 private:
  struct Extra {
    NodeKind kind;
    int32_t missing;  // global rank
  };
  // Where a member is with regard to an operation that another member is in.
  enum class Standing : uint8_t {
    kUnclear,    // its data proves nothing
    kUnknown,    // it is unknown whether the member reached the operation, so the others may wait for it
    kNotIssued,  // its process did not issue the operation, or is gone
    kCompleted,
    kBehind,   // its queue still executes something older
    kReached,  // the operation is at the front of its queue
  };
  // The state of a collective over all members.
  struct Collective {
    uint32_t node = kNoIndex;  // set only if a member has not issued the operation
    // Used only if all members have issued the operation, but the streams of some did not reach it. A rank whose stream
    // started it waits for those members.
    uint32_t started_node = kNoIndex;
    bool peers_finished = false, any_started = false;
    bool all_inside = false;  // every member has data, and has the operation in flight
  };

  // Returns whether every member has the collective at this front in flight, and a completion would have been noticed
  // by now. That is so if the collective is older than a watchdog's interval, or if more operations are in flight than
  // can go unnoticed.
  bool HeldByAll(size_t rank_index, const GpuFront& front);
  void MakeQueues();
  void FindLost(size_t rank_index);
  // Returns the queue of the rank whose oldest operation is this one, if its record was overwritten; otherwise
  // kNoIndex.
  uint32_t LostIn(int32_t rank_index, uint32_t comm, int64_t seq) const;
  // For the oldest operation in a queue, if its record was overwritten: returns whether counters show that the GPU is
  // executing it.
  bool LostStarted(const Queue& queue, uint32_t comm, int64_t seq) const;
  // Returns true if starts are counted and the GPU has completed every NCCL operation that it started. In that case, no
  // NCCL operation delays the GPU.
  bool NothingRuns(size_t rank_index) const;
  // Returns whether counters show that the GPU is in an operation without a record.
  bool RunsUnrecorded(size_t rank_index) const;
  // `forgive`: assume that some ranks notice completions late. Returns true if any rank is assumed to.
  bool Build(bool forgive);
  void BuildQueues();
  void BuildQueue(uint32_t queue);
  // Sets the queue's front, and returns what it waits for.
  std::vector<Edge> WaitsOf(uint32_t queue);
  // Returns whether older work of the queue is in flight before the unit at this place.
  bool IsBehind(uint32_t queue, uint32_t place) {
    return place > queues[queue].noticed_late || queues[queue].overwritten || AheadOnOtherStreams(queue, nullptr);
  }
  // Returns whether the node is a rank without data, or an operation that waits only for such ranks.
  bool OnlyUnknown(uint32_t node) const;
  bool AheadOnOtherStreams(uint32_t queue, std::vector<Edge>* out);
  bool WasMadeToWaitBefore(const Queue& queue, const Queue& other, const ring::StreamSnapshot::Dependency& d) const;
  void AddLaunchOrder(uint32_t queue);
  void HoldByFaultyGpus();
  void HoldByFaultyGpus(uint32_t queue);
  uint32_t FaultyQueueOf(int32_t rank_index) const;
  uint32_t WaitsInOlder(int32_t rank_index, const Op& op, const Member& peer) const;
  bool Failed(const Queue& queue) const;
  void BuildHost(size_t rank_index);
  void AddCreations();
  // Adds edges from processes that wait for another process outside NCCL to the other stuck ranks, so that they are no
  // longer sinks. Returns true if there are any.
  bool HoldFromOutside();
  void Reverse();
  void AddUnit(size_t rank_index, uint32_t unit, bool absent_only, std::vector<Edge>* out, GpuFront* front);
  void AddSendOrReceive(size_t rank_index, const Op& op, bool absent_only, std::vector<Edge>* out, GpuFront* front);
  const Collective& CollectiveOf(uint32_t comm, int64_t seq, bool absent_only);
  // If the others wait for something, sets the edge's target and reason. `absent_only`: only a rank that has not issued
  // the operation is evidence.
  Standing StandingOf(const Member& member, const MemberState& state, bool absent_only, Edge* edge);
  bool RecordEnds(const Member& member) const;
  bool LogIsSilent(const Member& member) const;
  int32_t CountUnnoticed(uint32_t queue);
  bool TooSoonToNotice(uint32_t queue) const;
  bool OnlySlowToNotice(uint32_t queue);
  bool NotStarted(size_t rank_index, uint32_t unit) const;
  bool Started(size_t rank_index, uint32_t unit) const;
  uint32_t AddNode(NodeKind kind, int32_t missing);
  uint32_t MissingNode(int32_t global_rank);
  void FindSinks();

  const Model& model_;
  const std::vector<Mismatch>& mismatches_;
  bool full_rings_ = false;
  absl::flat_hash_set<int32_t> forgiven_;  // ranks that the last Build assumed to notice completions late
  uint32_t hosts_ = 0, fixed_ = 0;         // number of processes; number of processes and queues
  std::vector<Extra> extra_;
  std::vector<uint32_t> first_queue_, first_unit_;
  std::vector<std::pair<uint32_t, uint32_t>> place_of_unit_;
  absl::flat_hash_map<int32_t, uint32_t> missing_nodes_;
  absl::flat_hash_map<std::pair<uint64_t, int64_t>, Collective> collectives_;      // (2 * comm + absent_only, seq)
  mutable absl::flat_hash_map<std::pair<uint32_t, int64_t>, int32_t> alone_done_;  // (comm, seq)
  absl::flat_hash_set<std::pair<uint32_t, int64_t>>
      not_held_;  // (comm, seq) pairs that no faulty GPU blocks, found in one pass over the queues
  absl::flat_hash_map<std::pair<uint32_t, int64_t>, std::vector<int32_t>> mismatch_at_;
};

}  // namespace lockstep
