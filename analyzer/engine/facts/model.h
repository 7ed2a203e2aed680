// The bundle in the form that the analysis needs. Shows how far each rank is in each communicator, and the rank's
// operations in flight, in order. Built once and read by every later stage. Holds references into the bundle, which
// must outlive it. Several threads may read it. But only one thread may look up roles or counterparts of sends and
// receives, because those tables are built on first use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/engine/facts/roles.h"
#include "analyzer/model/analyze_options.h"
#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Returns whether the data is from a framework's dump or a log. Such data does not show where the process is.
inline bool IsFramework(const Rank& rank) { return rank.source == Source::kFlightRecorder; }

// What is known about a member of a communicator.
struct Member {
  int32_t rank_index = -1;         // index into Bundle::ranks; -1 if the member left no data
  int32_t global_rank = -1;        // -1 if unknown
  uint32_t membership = kNoIndex;  // index into Rank::memberships
  int64_t arrived = kNone;         // last collective handed to the GPU, or issued if that is unknown
  int64_t completed = kUnknown;    // last collective that the rank's GPU is known to have completed
  int64_t oldest = kUnknown;       // oldest collective that is still recorded; kUnknown if there is none
  bool left = false;               // the communicator was destroyed, aborted or revoked on this rank
  bool recorded() const { return membership != kNoIndex; }  // the rank left data about this communicator
};

// A member's part in an operation, as far as its data shows.
struct MemberState {
  const Op* op = nullptr;    // the member's record of the operation; null if none
  uint32_t unit = kNoIndex;  // index into RankView::in_flight
  bool issued = false;
  bool completed = false;  // according to the record, or to counters if there is no record
  bool InFlight() const { return unit != kNoIndex; }
};

struct CommView {
  std::vector<Member> members;        // indexed by member rank
  int64_t least_arrived = INT64_MAX;  // minimum over the members that have data
  int64_t most_arrived = kNone;       // maximum over all members
  std::string names;                  // common part of the names in the class: "tp_*"; empty if there is none
  // Equal for communicators that ranks created at the same place of the program, according to names or order.
  std::string klass;
  uint32_t kind = 0;           // number of the class: an index into Model::kinds
  uint32_t parent = kNoIndex;  // the communicator that was split or shrunk; kNoIndex if none or unknown
  bool used_for_p2p = false;
};

// Operations that start together, in any order: a single call, an explicit group, or a framework's coalesced batch.
struct Unit {
  std::vector<uint32_t> ops;  // indexes into Rank::ops in program order
  int64_t enter_ns = 0;
};

// Where the CPU threads of a rank's process are.
enum class HostState : uint8_t {
  kUnknown,    // not recorded by the source
  kElsewhere,  // in no NCCL call and no CUDA wait
  kInCall,     // inside an NCCL call
  kInWait,     // waits for the GPU
  kStopped,
  kDead,
};

struct RankView {
  HostState host = HostState::kUnknown;
  std::vector<Unit> in_flight;   // in program order: oldest first
  uint32_t first_in_flight = 0;  // smallest Rank::ops index of an operation in flight
  std::vector<uint32_t>
      unit_of_op;  // for Rank::ops indexes from first_in_flight on: index into in_flight; kNoIndex if not in flight
  // For each membership: operation indexes, ascending by sequence number.
  std::vector<std::vector<uint32_t>> collectives;
  std::vector<uint32_t> queued;                          // indexes of the operations in groups that are still open
  const ring::ThreadSnapshot* thread = nullptr;          // the thread that shows most about the process, or null
  std::shared_ptr<const ring::ThreadSnapshot> by_stack;  // owns `thread` if only stacks show the wait
  std::vector<int64_t>
      longest_ns;            // Flight Recorder: for each membership, the second longest duration of a completed call
  bool seen_moving = false;  // the rank made a call just before its data was taken
  // For each stream: when the GPU was last seen to finish an operation on it; 0 if no such time was recorded.
  std::vector<int64_t> finished_ns;

  bool Gone() const { return host == HostState::kDead || host == HostState::kStopped; }
  // Nothing is in flight, and the state of the rank's process is unknown.
  bool Idle() const { return host == HostState::kUnknown && in_flight.empty(); }
};

// Returns the rank's membership in the communicator, or null.
inline const Membership* MembershipIn(const Rank& rank, uint32_t comm) {
  for (const Membership& ms : rank.memberships) {
    if (ms.comm == comm) return &ms;
  }
  return nullptr;
}

// The process exited with status 0, or exit() closed its ring and nobody observed its end.
inline bool EndedWell(const Rank& rank) {
  const Process& process = rank.process;
  if (process.life == Life::kExited) return process.exit_code == 0;
  return rank.recorder_state == ring::RecorderState::kCleanExit &&
         (process.life == Life::kGone || process.life == Life::kUnknown);
}
// Like EndedWell, but false if the process ended because the job was being ended.
inline bool EndedByItself(const Rank& rank) { return EndedWell(rank) && !rank.process.consequence; }

// Returns whether the rank's record shows which operations completed. If so, all other operations are unfinished. Some
// recorders never see a completion and report every operation as scheduled; a log of calls contains no completions.
// `op` is one of the rank's operations, or null.
bool CompletionsAreRecorded(const Rank& rank, const Op* op);

class Model {
 public:
  Model(const Bundle& bundle, const AnalyzeOptions& options);

  const Bundle& bundle;
  std::vector<CommView> comms;               // indexed as Bundle::comms
  std::vector<std::vector<uint32_t>> kinds;  // communicators of each class
  std::vector<RankView> ranks;               // indexed as Bundle::ranks
  bool stalled = false;                      // an operation has been in flight long enough to look for a cause

  uint32_t CommOf(const Rank& rank, const Op& op) const {
    return op.membership == kNoIndex ? kNoIndex : rank.memberships[op.membership].comm;
  }
  uint32_t CommOf(const Member& member) const { return MembershipOf(member).comm; }
  const Membership& MembershipOf(const Member& member) const {
    return bundle.ranks[member.rank_index].memberships[member.membership];
  }
  // Returns the member with this number, or null.
  const Member* MemberAt(uint32_t comm, int64_t number) const {
    const std::vector<Member>& members = comms[comm].members;
    return number >= 0 && static_cast<size_t>(number) < members.size() ? &members[number] : nullptr;
  }
  // Returns the peer of a rank's send or receive, or null if it is unknown.
  const Member* PeerOf(const Rank& rank, const Op& op) const { return MemberAt(CommOf(rank, op), op.root_or_peer); }
  // Returns the member's own record of collective `seq` (the first with that number), or null.
  const Op* FindCollective(const Member& member, int64_t seq) const;
  // Returns the member's records with that number, as indexes into Rank::ops. A framework's batch has several.
  std::span<const uint32_t> CollectivesAt(const Member& member, int64_t seq) const;
  MemberState StateOf(const Member& member, int64_t seq) const;
  // Returns the peer's part in a rank's send or receive.
  MemberState StateOf(int32_t rank_index, const Op& op, const Member& peer) const;
  // Returns the rank's membership in a communicator of this kind (the first of several), or null.
  const Member* MemberOfKind(int32_t rank_index, uint32_t kind) const;
  const Roles& roles() const;
  // The sends and receives of a rank, except those that failed.
  struct Exchanges {
    using Lane = std::vector<uint32_t>;  // indexes into Rank::ops; frameworks: in record order, otherwise by number
    absl::flat_hash_map<std::tuple<uint32_t, ring::CallKind, int32_t>, Lane> lanes;  // by membership, kind and peer
    std::vector<bool> whole;  // by membership: whether a framework's records contain all of these operations
    const Lane* Find(const std::tuple<uint32_t, ring::CallKind, int32_t>& of) const {
      const auto at = lanes.find(of);
      return at == lanes.end() ? nullptr : &at->second;
    }
  };
  const Exchanges& ExchangesOf(int32_t rank_index) const;
  // Returns the member's send or receive number `seq` with `peer`, or null if not recorded. Frameworks do not number by
  // peer: for them, returns the oldest such operation in flight.
  const Op* FindPointToPoint(const Member& member, ring::CallKind kind, int32_t peer, int64_t seq) const;
  // Returns how many operations of this direction the member has issued with `peer`, without those in open groups.
  // kUnknown if not counted.
  int64_t PeerIssued(const Member& member, ring::CallKind kind, int32_t peer) const;
  // Returns the peer's counterpart of a rank's send or receive, or null. `counted` is set to true if a framework's
  // records suffice to match the two sides by counting. Null then means that the peer has not issued it.
  const Op* OtherSide(int32_t rank_index, const Op& op, const Member& peer, bool* counted) const;
  // Returns whether the peer issued the counterpart of a rank's send or receive, or nullopt if the calls are not
  // counted.
  std::optional<bool> Met(int32_t rank_index, const Op& op) const;
  // Returns whether the member's oldest unit in flight waits for a call of this kind by `peer`, and the peer may not
  // have issued all such calls that the member needs.
  bool WaitsForCall(const Member& member, ring::CallKind kind, int32_t peer) const;
  // Returns the operation's index in RankView::in_flight of that rank, or kNoIndex.
  uint32_t UnitOf(int32_t rank_index, const Op* op) const;
  bool InFlight(int32_t rank_index, const Op& op) const { return UnitOf(rank_index, &op) != kNoIndex; }
  // Calls `look` with each operation that the rank has in flight, in program order.
  template <typename Look>
  void EachInFlight(size_t rank_index, Look look) const {
    for (const Unit& unit : ranks[rank_index].in_flight) {
      for (const uint32_t i : unit.ops) look(bundle.ranks[rank_index].ops[i]);
    }
  }
  // Returns the time from the operation's entry to the capture of the rank's data. kUnknown if one of the two times is
  // unknown, or if a wall clock was set back in between.
  static int64_t Age(const Rank& rank, const Op& op) {
    if (rank.captured_ns <= 0 || rank.set_back || op.enter_ns <= 0) return kUnknown;
    const int64_t age = rank.captured_ns - op.enter_ns;
    return age < 0 && IsFramework(rank) ? kUnknown : std::max<int64_t>(age, 0);
  }
  // Returns true if the operation was issued so shortly before the rank's data was taken that its absence on other
  // ranks proves nothing yet. A framework records an operation when it is enqueued, so its age includes time in the
  // queue. An operation also counts as young if two earlier operations of its communicator took as long.
  bool Young(const Rank& rank, const Op& op) const {
    const int64_t age = Age(rank, op);
    if (bundle.known_stalled || age == kUnknown) return false;
    const RankView& view = ranks[&rank - bundle.ranks.data()];
    // A GPU runs a stream in order: an operation cannot have been stuck since before the previous one ended.
    const int64_t before = op.stream < view.finished_ns.size() ? view.finished_ns[op.stream] : 0;
    if (std::min(age, rank.captured_ns - std::max(before, op.started_ns)) < options_.late_after_ns) return true;
    const std::vector<int64_t>& longest = view.longest_ns;
    return op.membership < longest.size() && age <= longest[op.membership];
  }

  // Returns true if the operation completed just before the rank's data was taken. Other members' data may be from an
  // earlier moment, so they may have completed the operation since then.
  bool JustCompleted(const Rank& rank, const Op& op) const {
    if (bundle.known_stalled || op.state != OpState::kCompleted || op.completed_ns <= 0) return false;
    if (rank.captured_ns <= 0 || rank.set_back) return false;
    const int64_t age = rank.captured_ns - op.completed_ns;
    return age < options_.late_after_ns && (age >= 0 || !IsFramework(rank));
  }

 private:
  void BuildComms();
  void InferMembers(const Communicator& comm, CommView* view) const;
  // A partial result, from the ranks that one thread processed.
  struct Standing {
    bool stalled = false, set_back = false;
  };
  void BuildRank(size_t index, Standing* standing);
  void SetHost(size_t index, bool dead);
  bool ProvenIncomplete(const Rank& rank, const Op& op) const;
  void Classify(const Communicator& comm, CommView* view) const;
  // Built on first use; exchanges by rank index.
  mutable std::vector<std::unique_ptr<const Exchanges>> exchanges_;
  mutable std::unique_ptr<const Roles> roles_;
  const AnalyzeOptions options_;
  std::vector<bool> shares_process_;  // for each rank: whether another rank is in the same process
  bool anyone_runs_ = false;
  bool sizes_inferred_ = false;  // some communicator has only the members that were seen to use it
  bool ages_told_ = false;       // the capture time of some rank without damage is known
  bool set_back_ = false;        // some operation is in flight on a clock that was set back later
};

// For each member without data (its global rank): the communicators that it is in, and its number there.
std::map<int32_t, std::vector<std::pair<uint32_t, int32_t>>> UnseenMembers(const Model& model);

// Returns the first `most` global ranks of the job that left no data, ascending.
std::vector<int32_t> RanksWithoutData(const Bundle& bundle, size_t most);

// Returns how long the process has waited for its GPU, if there are no GPU progress markers to show in which operation.
// -1 if it does not wait, or if the time is unknown.
inline int64_t WaitedForUnseenWork(const Rank& rank, const RankView& view) {
  const bool waits = view.host == HostState::kInWait && view.thread != nullptr && view.thread->wait_since_ns > 0 &&
                     rank.captured_ns > 0 && rank.gpu_marks == ring::GpuMarks::kOff;
  return waits ? rank.captured_ns - view.thread->wait_since_ns : -1;
}

// Return the number of the rank's first collective on the communicator, and of the first one that it has not completed.
// NextOf requires that `completed` is not kUnknown.
inline int64_t FirstOf(const Membership& ms) { return ms.first_seq >= 0 ? ms.first_seq : 1; }
inline int64_t NextOf(const Membership& ms) { return ms.completed != kNone ? ms.completed + 1 : FirstOf(ms); }

// Returns whether the communicator has completed nothing on the rank, and `seq` is its first collective.
inline bool IsFirst(const Membership& ms, int64_t seq) { return ms.completed == kNone && seq == FirstOf(ms); }

// Sets the condition of a rank's process, and its exit code and state letter.
void SetCondition(const Rank& rank, HostState host, Culprit* culprit);

// "AllReduce" or the framework's own name for the operation.
std::string OpName(const Bundle& bundle, const Op& op);
std::string NumberedName(const Bundle& bundle, const Op& op);  // "AllReduce #41", "Send #7"
// "AllReduce #41", "Send #7 to rank 3"; "AllReduce #41 (replay 412 of graph 1)".
std::string OpText(const Bundle& bundle, const Rank& rank, const Op& op);
// Returns the launch of a CUDA graph that issued the operation, and that graph, or null.
const Replay* ReplayOf(const Rank& rank, const Op& op);
const ring::GraphSnapshot* GraphOf(const Rank& rank, const Replay& replay);
std::string CommName(const Communicator& comm);  // "communicator ID" if the communicator has no name
// A communicator's name in sentences: "tp_3"; with its members if others have the same name, "dp (ranks 24-31)";
// GroupText() if it has no name. Examines every communicator.
std::string CommText(const Bundle& bundle, uint32_t comm_index);
// "the group of ranks 24-31", "group 2 of ranks 24-31", "a group with 8 ranks" if it may have more members.
std::string GroupText(const Communicator& comm);
std::string ReductionText(uint8_t reduction);
std::string DatatypeText(uint8_t datatype);

}  // namespace lockstep
