// The bundle seen the way the analysis needs it: who is where in each communicator, what each rank has in flight, in
// which order. Built once, read by every later stage; holds references into the bundle, which must outlive it. Several
// threads may read it, but one alone may ask for the other side of a send or receive: the tables of these are made when
// first needed.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_MODEL_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/model/analyze_options.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// One member of a communicator, as far as anything says.
struct Member {
  int32_t rank_index = -1;         // into Bundle::ranks; -1: no data from it
  int32_t global_rank = -1;        // -1: not known
  uint32_t membership = kNoIndex;  // into Rank::memberships
  int64_t arrived = kNone;         // last collective handed to the GPU (or, lacking that, issued)
  int64_t completed = kUnknown;    // last collective its GPU is known to have completed
  int64_t oldest = kUnknown;       // oldest collective still recorded; kUnknown: none
  bool left = false;               // destroyed, aborted or revoked on this rank
};

struct CommView {
  std::vector<Member> members;        // by member rank
  int64_t least_arrived = INT64_MAX;  // of the members that have data
  std::string names;                  // what the names in its class have in common: "tp_*"; empty: nothing
  std::string klass;                  // communicators made at the same place of the program on other ranks share it
  bool used_for_p2p = false;
};

// Operations that start together: a lone call, an explicit group, or a framework's coalesced batch. Members are
// unordered.
struct Unit {
  std::vector<uint32_t> ops;  // into Rank::ops, program order
  int64_t enter_ns = 0;
};

enum class HostState : uint8_t {
  kUnknown,    // the source does not say
  kElsewhere,  // in no NCCL call and no CUDA wait
  kInCall,     // inside an NCCL call
  kInWait,     // waits for the GPU
  kStopped,
  kDead,
};

struct RankView {
  HostState host = HostState::kUnknown;
  std::vector<Unit> in_flight;   // program order: oldest first
  uint32_t first_in_flight = 0;  // least Rank::ops index of what is in flight: mostly one of the newest
  std::vector<uint32_t>
      unit_of_op;  // from there on: Rank::ops index -> index into in_flight, kNoIndex if not in flight
  std::vector<std::vector<uint32_t>> collectives;        // per membership: op indexes, ascending by sequence
  const ring::ThreadSnapshot* thread = nullptr;          // the thread that says most about the host, may be null
  std::shared_ptr<const ring::ThreadSnapshot> by_stack;  // `thread`, where stacks alone show its wait
  bool seen_moving = false;                              // it made a call just before its data was taken
};

class Model {
 public:
  Model(const Bundle& bundle, const AnalyzeOptions& options);

  const Bundle& bundle;
  std::vector<CommView> comms;  // as Bundle::comms
  std::vector<RankView> ranks;  // as Bundle::ranks
  bool stalled = false;         // some operation has been in flight for long enough to ask why

  uint32_t CommOf(const Rank& rank, const Op& op) const {
    return op.membership == kNoIndex ? kNoIndex : rank.memberships[op.membership].comm;
  }
  // The member's own record of collective `seq` (first of that number); null when it has none.
  const Op* FindCollective(const Member& member, int64_t seq) const;
  // Send or receive number `seq` between the member and `peer`; null when not recorded.
  const Op* FindPointToPoint(const Member& member, ring::CallKind kind, int32_t peer, int64_t seq) const;
  // How many operations of this direction the member has issued with `peer`; kUnknown when the source does not count.
  int64_t PeerIssued(const Member& member, ring::CallKind kind, int32_t peer) const;
  // The other side of a rank's send or receive, at that peer. `counted`: both records tell all sends and receives
  // between the two, so that null means not issued.
  const Op* OtherSide(int32_t rank_index, const Op& op, const Member& peer, bool* counted) const;
  // Index into RankView::in_flight of an operation of that rank; kNoIndex when it is not in flight.
  uint32_t UnitOf(int32_t rank_index, const Op* op) const;
  bool InFlight(int32_t rank_index, const Op& op) const;
  // For how long the rank had been in the operation, or done with it, when its data was taken; kUnknown where nothing
  // tells: not when it was taken, or a wall clock that was set back in between.
  static int64_t Age(const Rank& rank, const Op& op) {
    if (rank.captured_ns <= 0 || rank.set_back || op.enter_ns < 0) return kUnknown;
    const int64_t age = rank.captured_ns - op.enter_ns;
    return age < 0 && rank.source == Source::kFlightRecorder ? kUnknown : std::max<int64_t>(age, 0);
  }
  // Issued so shortly before the rank's data was taken that its absence elsewhere says nothing yet.
  bool Young(const Rank& rank, const Op& op) const {
    const int64_t age = Age(rank, op);
    return !bundle.known_stalled && age != kUnknown && age < options_.late_after_ns;
  }

 private:
  void BuildComms();
  void InferMembers(const Communicator& comm, CommView* view) const;
  // What ranks that are looked at on one thread say of the whole job.
  struct Standing {
    bool stalled = false, set_back = false;
  };
  void BuildRank(size_t index, Standing* standing);
  void SetHost(size_t index, bool dead);
  bool ProvenIncomplete(const Rank& rank, const Op& op) const;
  void Classify(const Communicator& comm, CommView* view) const;
  // What a framework recorded of sends to (receives from) each peer, in order; nothing of groups whose first are gone.
  using Lanes = absl::flat_hash_map<std::tuple<uint32_t, ring::CallKind, int32_t>,
                                    std::vector<uint32_t>>;  // membership, kind, peer
  const Lanes& LanesOf(int32_t rank_index) const;
  mutable absl::flat_hash_map<int32_t, Lanes> lanes_;  // made when first needed
  const AnalyzeOptions options_;
  std::vector<bool> shares_process_;  // by rank: another rank is in the same process
  bool anyone_runs_ = false;
  bool ages_told_ = false;  // some rank that was read whole says when its data was taken
  bool set_back_ = false;   // something is in flight on a clock that was set back since
};

// "died of signal 9 (SIGKILL)", "waits for its GPU"; empty: not known.
std::string HostStateText(const Rank& rank, HostState host);

// "AllReduce" or the framework's own name of it.
std::string OpName(const Bundle& bundle, const Op& op);
// In sentences a collective's number says what it counts: "AllReduce, collective #41"; of other calls " #".
const char* BeforeNumber(ring::CallKind kind);
// "AllReduce #41", "Send #7 to rank 3"; "AllReduce #41 (replay 412 of graph 1)".
std::string OpText(const Bundle& bundle, const Rank& rank, const Op& op, const char* before_number = " #");
// The launch of a CUDA graph that issued the operation, and that graph; null where none did.
const Replay* ReplayOf(const Rank& rank, const Op& op);
const ring::GraphSnapshot* GraphOf(const Rank& rank, const Replay& replay);
std::string CommName(const Communicator& comm);  // without a name "communicator ID"
// A communicator as sentences name it: "tp_3 (ranks 24-31)"; without a name "the group of ranks 24-31".
std::string CommText(const Communicator& comm);
std::string ReductionText(uint8_t reduction);
std::string DatatypeText(uint8_t datatype);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_MODEL_H_
