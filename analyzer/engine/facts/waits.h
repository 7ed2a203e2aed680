// Who waits for whom. Nodes: each rank's host (which must issue calls), each in-order queue of its GPU (which must
// finish what was issued), each collective that somebody is in (so that its members are looked at once, not once for
// each of them), and each rank that others wait for and that left no data. Built in time linear in what is in flight
// and who is member of it.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_WAITS_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_WAITS_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "analyzer/engine/facts/init.h"
#include "analyzer/engine/facts/mismatch.h"
#include "analyzer/engine/facts/model.h"
#include "analyzer/engine/facts/stopped.h"

namespace lockstep {

enum class Why : uint8_t {
  kNotIssued,    // the target has not issued the operation
  kBehind,       // it has, but its queue is still in something older
  kNotStarted,   // it has, but its stream has not reached it although others' have
  kDead,         // its process is gone or stopped
  kNoData,       // nothing is known of it
  kOwnGpu,       // the host waits for its own GPU
  kInit,         // it has not entered the making of the communicator
  kIn,           // from a queue to the collective that it is in, from a host to the making of a communicator
  kStreamOrder,  // another stream of the same GPU must get further first
  kLaunchOrder,  // another stream of the same GPU runs something that was issued later: perhaps it must end first
  kOutside,      // its host is seen to wait for another process, by other means than NCCL: for one of those that stand
                 // still by themselves
};

struct Edge {
  uint32_t to = 0;
  Why why = Why::kNotIssued;
  const Op* op = nullptr;  // what the waiter is in; null for kOwnGpu, kInit and out of a collective
  uint32_t comm = kNoIndex;
  // The other side of a send or receive may as well be complete and gone from the record.
  bool presumed = false;
};

// Why a queue that waits for nobody does not go on.
enum class Front : uint8_t {
  kIdle,           // nothing in flight
  kWaits,          // has edges
  kAllArrived,     // every member is in the operation, none finishes
  kNotReached,     // this rank's stream did not reach it; its peers' did, or left no data
  kPeersFinished,  // peers finished it, this rank's GPU did not
  kMismatched,     // the members' calls differ
  kOverwritten,    // what it is in has left the record
  kFailed,         // the GPU reported an error: nothing that it holds ends any more, whoever else is late
};

struct GpuFront {
  Front front = Front::kIdle;
  const Op* op = nullptr;
  uint32_t comm = kNoIndex;
  int32_t mismatch = -1;     // into the mismatches given
  int64_t lost_seq = kNone;  // number of the collective where its record is gone (`op` is null)
};

// One in-order queue of a GPU: a stream, or all that a rank has in flight where what each stream started is not
// recorded.
struct Queue {
  int32_t rank = -1;            // into Bundle::ranks
  uint32_t stream = kNoIndex;   // into Rank::streams; kNoIndex: all of them
  std::vector<uint32_t> units;  // into RankView::in_flight, oldest first
  GpuFront front;
  // Older than its units and gone from the record, known by counters alone: communicator and number of the collectives,
  // of which at least one is in flight. `overwritten` without any: something else.
  std::vector<std::pair<uint32_t, int64_t>> lost;
  bool overwritten = false, lost_started = false;
  uint32_t lost_exchange = kNoIndex;  // communicator of sends or receives that are gone likewise
  // The same by a counter that collectives share: the GPU may be in what is gone if nothing else holds it.
  uint32_t perhaps_lost = kNoIndex;
};

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
  // Queues of a rank, at least one: [FirstQueue(r), FirstQueue(r + 1)).
  uint32_t FirstQueue(size_t rank_index) const { return first_queue_[rank_index]; }
  // -1 for a node of a rank without data and for a collective.
  int32_t RankOf(uint32_t node) const {
    return node < hosts_ ? static_cast<int32_t>(node) : node < fixed_ ? queues[node - hosts_].rank : -1;
  }
  bool IsHost(uint32_t node) const { return node < hosts_; }
  int32_t MissingRank(uint32_t node) const { return extra_[node - fixed_].missing; }
  // The queue that holds a unit of the rank's, and the unit's place in it.
  std::pair<uint32_t, uint32_t> PlaceOf(size_t rank_index, uint32_t unit) const {
    return place_of_unit_[first_unit_[rank_index] + unit];
  }

  // The one member that is done with the collective at this front, in which others are: see FinishedAlone. -1: none.
  // Not thread-safe.
  int32_t AloneDone(const GpuFront& front) const;

  std::vector<std::vector<Edge>> edges;
  std::vector<std::vector<uint32_t>> back;  // reverse adjacency
  std::vector<Queue> queues;                // by rank, then by first use
  std::vector<StoppedHost> stopped;         // by rank index
  // Strongly connected components that nothing leads out of and something waits in; each ascending.
  std::vector<std::vector<uint32_t>> sinks;
  std::vector<PendingCreation> creations;  // communicators in the making; each is a node as a collective is

 private:
  struct Extra {
    NodeKind kind;
    int32_t missing;  // global rank
  };
  // What the members of one collective are doing about it.
  struct Collective {
    uint32_t node = kNoIndex;  // only where somebody lacks
    uint32_t started_node =
        kNoIndex;  // only where nobody lacks, and streams of some did not reach it: who started waits
    bool peers_finished = false, any_started = false;
    bool all_inside = false;  // every member has data, and has it in flight
  };

  // Whether every member has the collective at this front in flight, and its completion would have been noticed by now:
  // it is older than a watchdog's interval, or more operations are in flight behind it than can go unnoticed.
  bool HeldByAll(size_t rank_index, const GpuFront& front);
  // Of the last Build: marks in `stands_` who must not be forgiven; true when there are any.
  bool StandByThemselves();
  void MakeQueues();
  void FindLost(size_t rank_index);
  // 0 not lost here, 1 it stands at the front of a queue of the rank's, 2 it stands behind what does.
  int PlaceOfLost(int32_t rank_index, uint32_t comm, int64_t seq, uint32_t* queue) const;
  // Of an operation at the front of a queue whose record is gone: whether counters show that the GPU is in it.
  bool LostStarted(const Queue& queue, uint32_t comm, int64_t seq) const;
  // Starts are counted, and whatever the GPU started of NCCL's it has completed: nothing of NCCL's holds it.
  bool NothingRuns(size_t rank_index) const;
  // True when ranks were taken for slow to notice completions.
  bool Build(bool forgive);
  void BuildQueue(uint32_t queue, bool skip_finished);
  // A rank without data, or an operation in which nobody else is waited for.
  bool OnlyUnknown(uint32_t node) const;
  bool AheadOnOtherStreams(uint32_t queue, std::vector<Edge>* out);
  bool WasMadeToWaitBefore(const Queue& queue, const Queue& other, const ring::StreamSnapshot::Dependency& d) const;
  void AddLaunchOrder(uint32_t queue);
  void HoldByFaultyGpus();
  void HoldByFaultyGpus(uint32_t queue);
  uint32_t FaultyQueueOf(int32_t rank_index) const;
  bool Failed(const Queue& queue) const;
  void BuildHost(size_t rank_index);
  void AddCreations();
  // Of the sinks, hosts that are seen to wait for another process outside of NCCL: with edges to whatever else stands
  // still, they are none. True when there are such.
  bool HoldFromOutside();
  void Reverse();
  void AddUnit(size_t rank_index, uint32_t unit, bool absent_only, std::vector<Edge>* out, GpuFront* front);
  void AddSendOrReceive(size_t rank_index, const Op& op, bool absent_only, std::vector<Edge>* out, GpuFront* front);
  const Collective& CollectiveOf(uint32_t comm, int64_t seq, bool absent_only);
  bool RecordEnds(const Member& member) const;
  int32_t CountUnnoticed(uint32_t queue);
  bool OnlySlowToNotice(uint32_t queue);
  bool PeersFinishedLater(uint32_t queue, size_t after, GpuFront* front);
  bool NotStarted(size_t rank_index, uint32_t unit) const;
  bool Started(size_t rank_index, uint32_t unit) const;
  uint32_t AddNode(NodeKind kind, int32_t missing);
  uint32_t MissingNode(int32_t global_rank);
  void FindSinks();

  const Model& model_;
  const std::vector<Mismatch>& mismatches_;
  bool full_rings_ = false;
  std::vector<bool> stands_;               // by rank: what it did not notice is what it stands in
  absl::flat_hash_set<int32_t> forgiven_;  // ranks of the last Build
  uint32_t hosts_ = 0, fixed_ = 0;         // hosts; hosts and queues
  std::vector<Extra> extra_;
  std::vector<uint32_t> first_queue_, first_unit_;
  std::vector<std::pair<uint32_t, uint32_t>> place_of_unit_;
  absl::flat_hash_map<int32_t, uint32_t> missing_nodes_;
  absl::flat_hash_map<std::pair<uint64_t, int64_t>, Collective> collectives_;      // (2 * comm + absent_only, seq)
  mutable absl::flat_hash_map<std::pair<uint32_t, int64_t>, int32_t> alone_done_;  // (comm, seq)
  absl::flat_hash_set<std::pair<uint32_t, int64_t>>
      not_held_;  // (comm, seq) that no faulty GPU holds, in one pass over the queues
  absl::flat_hash_map<std::pair<uint32_t, int64_t>, std::vector<int32_t>> mismatch_at_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_WAITS_H_
