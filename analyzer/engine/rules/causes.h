// Converts the results of the earlier stages into findings: kind, culprits, evidence, chain, advice.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "analyzer/engine/facts/activity.h"
#include "analyzer/engine/facts/cause.h"
#include "analyzer/engine/facts/mismatch.h"
#include "analyzer/engine/facts/model.h"
#include "analyzer/engine/facts/program.h"
#include "analyzer/engine/facts/waits.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Grade of a finding that others wait for a rank without data. The rank may be at fault, or only its file is missing.
constexpr Grade kWaitedForWithoutData = GRADE_OPEN;

// Returns what the record shows about a failure of the GPU itself, or nothing.
std::string GpuErrorOf(const Rank& rank);

class Causes {
 public:
  Causes(const Model& model, const std::vector<Mismatch>& mismatches, const std::vector<Divergence>& divergences,
         const WaitGraph* graph);

  // Causes from the wait graph; empty if there is none.
  std::vector<Cause> FromSinks();
  // Calls that disagree, were skipped or were added, although no rank waits for them. Skips what `known` explains.
  std::vector<Cause> FromDisagreement(const std::vector<Cause>& known);
  // Processes that ended abnormally. Skips ranks that `known` names.
  std::vector<Cause> FromDeaths(const std::vector<Cause>& known);
  // Processes that exited with status 0, or are stopped. GPU marks are off, and every other process has waited for
  // its GPU for at least `late_after_ns`.
  std::vector<Cause> FromEndsUnderWaits(const std::vector<Cause>& known, int64_t late_after_ns) const;
  // Most members of a communicator ended with the same operation: they exited with status 0, or are idle. Then the few
  // ranks that issued an extra call are ahead. One extra call is more likely than a fault on most ranks.
  void BlameTheAhead(std::vector<Cause>* causes) const;
  // `ahead` issued `op`, and the `behind` other members never did; `exited`: with status 0 instead.
  Cause AheadCause(const Op& op, int32_t op_rank, std::vector<int32_t> ahead, size_t behind, bool exited) const;
  // Blames a rank without data instead of idle ranks that may wait for it in a call that is not recorded.
  void BlameTheSilent(std::vector<Cause>* causes) const;
  std::vector<Cause> FromLastCalls() const;
  // Processes that ended without a clean exit while nothing watched them. Only when all processes have ended.
  std::vector<Cause> FromUnseenEnds() const;
  // Collectives that some members completed and others never issued, in records that a framework wrote after the fact.
  std::vector<Cause> FromAbsence();
  // The job is known to be stuck, but no record shows why. Returns the one process that launched its CUDA graph fewer
  // times than all others and is in no wait. Needs no wait graph.
  std::vector<Cause> FromReplays() const;
  // No rank waits in NCCL, and nearly all wait for another process outside NCCL. Returns the few that do not, or else
  // the ranks without data. Needs no wait graph.
  std::vector<Cause> FromRendezvous(int64_t late_after_ns) const;
  // Only stacks are known. Returns the few ranks whose stacks are at a different place of the program.
  std::vector<Cause> FromStacks() const;
  // Ranks that left no data, if nothing else is known to be wrong.
  std::vector<Cause> FromMissing() const;
  // Signature hashes that differ although no record shows a different call; asynchronous errors of NCCL.
  std::vector<Cause> FromHashes();
  std::vector<Cause> FromAsyncErrors();

  // Communicators that were not created: adds the ranks that never arrived to `causes`, and removes what that explains.
  void AddFromCreations(int64_t late_after_ns, std::vector<Cause>* causes);
  // Does the same for communicators that differ from others of the same kind.
  void AddFromSplits(std::vector<Cause>* causes);
  // For backends whose groups have no names. If the newest group's sizes differ from the peers', replaces the causes
  // that this difference explains.
  void AddFromNewestGroups(std::vector<Cause>* causes) const;
  // Beside `known`, which others wait for: ranks that are stuck by themselves or left their program, although no rank
  // waits for them yet.
  std::vector<Cause> FromBeside(const std::vector<Cause>& known) const;

  Finding ToFinding(const Cause& cause) const;
  void AddWhere(const Cause& cause, Finding* finding) const;
  // Adds facts about the CUDA graph launch that issued the operation.
  void DescribeReplay(const Cause& cause, Finding* finding) const;

 private:
  // Parts of FromBeside: processes that wait where ranks with the same role continued, and ranks with other counts of
  // calls.
  void AddWaitsTooEarly(const std::vector<Cause>& known, std::vector<Cause>* causes) const;
  void AddOtherPrograms(const std::vector<Cause>& known, std::vector<Cause>* causes) const;
  void AddOpenGroups(const std::vector<Cause>& known, std::vector<Cause>* causes) const;
  // Parts of FromSinks. A sink is one node of the wait graph, or a circle of several.
  std::vector<Cause> FromSink(const std::vector<uint32_t>& sink, std::set<std::pair<uint32_t, int64_t>>* told);
  std::vector<Cause> FromPrograms(const std::vector<uint32_t>& sink) const;
  std::vector<Cause> FromCircle(const std::vector<uint32_t>& sink) const;
  std::vector<Cause> FromQueue(uint32_t node, std::set<std::pair<uint32_t, int64_t>>* told) const;
  void AddWithoutWaiters(std::vector<Cause>* causes) const;
  void SetSilentAside(std::vector<Cause>* causes) const;
  void DropExplained(std::vector<Cause>* causes) const;
  Cause FromDivergence(const Divergence& d) const;
  Cause FromMismatch(const Mismatch& m) const;
  std::vector<Cause> Explain(const Mismatch& m) const;
  // Returns whether the process left its program for a known reason: its last call is one on which the calls differ.
  std::vector<Cause> WhyItLeft(uint32_t node) const;
  // For a cycle: returns the few ranks that never issued the operation in which many wait, or none.
  std::vector<Cause> LeftInCircle(const std::vector<uint32_t>& sink) const;
  // Returns whether the rank's GPU reached the place where its program differs. Before that place, the difference stops
  // no rank.
  bool CameTo(const Divergence& d) const;
  // Returns whether rank and holder completed an operation together that the holder issued after `op`.
  bool MetLater(int32_t rank_index, int32_t holder, const Op& op) const;
  // Returns true if the rank is ending its communicators, or has ended the one in which others wait.
  bool LeftTheLoop(int32_t rank_index, uint32_t comm) const;
  Cause CreationCause(const PendingCreation& p, const std::set<int32_t>& waiting_somewhere) const;
  Cause Unexplained(const PendingCreation& p) const;
  // Returns true if the missing member, whichever rank it is, waits for the ranks that create the communicator.
  bool ClosedCreation(const PendingCreation& p, const std::string& call, Cause* c) const;
  std::vector<Cause> FromProcesses() const;
  Cause NoDataCause(int32_t global_rank) const;
  // A node of the wait graph that is a rank without data, for which others wait.
  Cause WaitedForWithoutData(uint32_t node) const;
  Cause HostCause(uint32_t node) const;
  std::vector<int32_t> FinishedByCountsAlone(const GpuFront& front) const;
  Cause GpuCause(uint32_t node) const;
  Cause FinishedAloneCause(uint32_t node, int32_t alone) const;
  Cause StuckCause(uint32_t node) const;
  // Returns whether the operation waits for a member that no record shows, and all ranks that may be it left data.
  bool MissesUnknown(const GpuFront& front) const;
  // Returns whether the rank's newest collective may wait for `waiter`, which waits in `op` and issued that collective
  // after it.
  bool MayWaitInNewest(int32_t rank_index, int32_t waiter, const Op& op) const;
  Cause NotBegunCause(uint32_t node) const;
  bool OnlyFirstOperationsWaitFor(uint32_t node) const;
  std::set<uint32_t> WaitedIn(uint32_t node) const;
  // Sinks that are ranks without data, which are most likely victims themselves.
  std::set<uint32_t> SilentVictims() const;
  // If no rank is known to delay the others, returns the ranks whose record of the current operation was overwritten.
  std::vector<Cause> FromOverwritten();
  Cause FromCounts();
  void NarrowByCounts(std::vector<Cause>* circle);
  // Returns whether the GPU of a member is known to have failed.
  bool GpuFailed(uint32_t comm) const;
  void AddNetworkSteps(const GpuFront& front, Cause* cause) const;
  void AddOtherOrders(const GpuFront& front, Cause* cause) const;
  std::vector<Cause> CycleCauses(const std::vector<uint32_t>& sink) const;
  // A cycle of sends and receives that one rank closed: it used a peer with which it had never exchanged anything.
  bool NarrowToStranger(const std::vector<uint32_t>& sink, Cause* c) const;
  // Combines two operations into one hypothesis: the same members are all in both, on different streams, and neither
  // ends.
  void JoinStuck(std::vector<Cause>* causes) const;
  Cause HeldByUnseen(const Cause& circle, const std::set<int32_t>& unseen) const;
  Cause LaunchOrderCause(const std::vector<uint32_t>& sink) const;
  Cause DeathCause(int32_t rank_index) const;
  // Facts about a rank without data: its communicators, and the ranks in them that wait only for it.
  struct Silent {
    struct Wait {
      int32_t rank;
      const Op* op;
      uint32_t comm;
    };
    std::vector<std::pair<uint32_t, int32_t>> own;  // communicator, member rank
    std::vector<Wait> waits;
  };
  std::map<int32_t, Silent> SilentRanks(const std::vector<int32_t>& global_ranks) const;
  // Returns false if an operation before the one in which others wait may have delayed the rank without data. `still`:
  // the ranks that are already named. If only the rank's dump is lost, one of these would delay it.
  bool NothingHeldIt(const Silent& silent, const std::set<int32_t>& still) const;
  struct Furthest {
    std::array<int32_t, 2> rank = {-1, -1};
    std::array<int64_t, 2> issued = {-1, -1};
  };
  std::vector<Furthest> FurthestOfEach() const;
  const Membership* SomebodyAheadOf(const std::vector<Furthest>& furthest, int32_t rank_index, int32_t* who) const;
  const Divergence* DivergenceOf(int32_t rank_index) const;
  // An operation that waits for a node: the one closest to the place in the program where that node stopped.
  struct Waiter {
    const Edge* edge = nullptr;  // edge that leads out of the queue or process `from`
    uint32_t from = 0;
  };
  Waiter FirstWaiter(uint32_t node) const;
  const Waiter& FirstIn(uint32_t collective) const;
  void AddWaiterEvidence(uint32_t node, Cause* cause) const;
  void SetNotArrived(uint32_t node, const Waiter& waiter, Cause* cause) const;
  // Combines several ranks that are stuck in the same way into one finding.
  void Merge(std::vector<Cause>* causes, Cause cause) const;
  void AddHostEvidence(int32_t rank_index, Cause* cause) const;
  std::string Who(int32_t rank_index) const;
  // Returns the time from `since_ns` until the rank's data was taken, or nullopt if unknown.
  std::optional<int64_t> Lasted(const Rank& rank, int64_t since_ns) const;
  // Returns how long the rank has been in the cause's operation.
  EvidenceItem InOperation(int32_t rank_index, const Op& op) const;

  const Model& model_;
  const Bundle& bundle_;
  const std::vector<Mismatch>& mismatches_;
  const std::vector<Divergence>& divergences_;
  const WaitGraph* graph_;
  absl::flat_hash_set<int32_t> damaged_;                    // global ranks
  std::vector<int32_t> divergence_of_rank_;                 // index into divergences_; -1 if none
  mutable absl::flat_hash_map<uint32_t, Waiter> first_in_;  // indexed by the node of a collective
};

}  // namespace lockstep
