// Turns what the earlier stages found into findings: kind, culprits, evidence, chain, advice.
#ifndef LOCKSTEP_ANALYZER_ENGINE_RULES_CAUSES_H_
#define LOCKSTEP_ANALYZER_ENGINE_RULES_CAUSES_H_

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

// Of a finding that a rank without data is waited for: it may be at fault, or only its file is missing.
constexpr Grade kWaitedForWithoutData = GRADE_OPEN;

// What the record says is wrong with the GPU itself; empty: nothing.
std::string GpuErrorOf(const Rank& rank);

class Causes {
 public:
  Causes(const Model& model, const std::vector<Mismatch>& mismatches, const std::vector<Divergence>& divergences,
         const WaitGraph* graph);

  // From the wait graph; empty without one.
  std::vector<Cause> FromSinks();
  // Calls that disagree, were left out or were added, although nothing waits for them. Skips what `known` explains.
  std::vector<Cause> FromDisagreement(const std::vector<Cause>& known);
  // Processes that ended abnormally. Skips ranks that `known` names.
  std::vector<Cause> FromDeaths(const std::vector<Cause>& known);
  // Processes that exited with status 0, or are stopped, while every other process has waited for its GPU for at least
  // `late_after_ns` and GPU marks are off.
  std::vector<Cause> FromEndsUnderWaits(const std::vector<Cause>& known, int64_t late_after_ns) const;
  // Most members of a communicator ended with the same operation: they exited with status 0, or are idle. Then the few
  // ranks that issued one more are ahead. One extra call is more likely than a fault on most ranks.
  void BlameTheAhead(std::vector<Cause>* causes) const;
  // Blames a rank without data instead of idle ranks that may be waiting for it in a call that is not recorded.
  void BlameTheSilent(std::vector<Cause>* causes) const;
  // Processes that ended without a clean exit while nothing watched them. Only when all processes have ended.
  std::vector<Cause> FromUnseenEnds() const;
  // Collectives that some members finished and others never issued (records of a framework, taken after the fact).
  std::vector<Cause> FromAbsence();
  // The job is known to be stuck, but nothing in the record is: the one process that launched its CUDA graph fewer
  // times than all others and is in no wait. Needs no wait graph.
  std::vector<Cause> FromReplays() const;
  // No rank waits in NCCL, and nearly all wait for another process outside NCCL: the few that do not. If there are
  // none, the ranks without data. Needs no wait graph.
  std::vector<Cause> FromRendezvous(int64_t late_after_ns) const;
  // Only stacks are known: the few ranks whose stacks are in a different place of the program.
  std::vector<Cause> FromStacks() const;
  // Ranks that left no data, when nothing else is known to be wrong.
  std::vector<Cause> FromMissing() const;
  // Signature hashes that differ although no record shows a differing call; asynchronous errors of NCCL.
  std::vector<Cause> FromHashes();
  std::vector<Cause> FromAsyncErrors();

  // Communicators that were not created: adds the ranks that never arrived to `causes`, and removes what that explains.
  void AddFromCreations(int64_t late_after_ns, std::vector<Cause>* causes);
  // Communicators that differ from others of the same kind; likewise.
  void AddFromSplits(std::vector<Cause>* causes);
  // Groups of backends without names of groups: other sizes than the peers' replace what they explain in `causes`.
  void AddFromNewestGroups(std::vector<Cause>* causes) const;
  // Beside `known`, which others wait for: ranks that are stuck by themselves or left their program, and that no rank
  // waits for yet.
  std::vector<Cause> FromBeside(const std::vector<Cause>& known) const;

  Finding ToFinding(const Cause& cause) const;
  void AddWhere(const Cause& cause, Finding* finding) const;
  // Adds what is known of the CUDA graph launch that issued the operation.
  void DescribeReplay(const Cause& cause, Finding* finding) const;

 private:
  // Parts of FromBeside: processes that wait where ranks with the same role continued; ranks that counted other calls.
  void AddWaitsTooEarly(const std::vector<Cause>& known, std::vector<Cause>* causes) const;
  void AddOtherPrograms(const std::vector<Cause>& known, std::vector<Cause>* causes) const;
  void AddOpenGroups(const std::vector<Cause>& known, std::vector<Cause>* causes) const;
  Cause FromDivergence(const Divergence& d) const;
  Cause FromMismatch(const Mismatch& m) const;
  std::vector<Cause> Explain(const Mismatch& m) const;
  // Why the process left its program: its last call was one on which the calls differ. Empty: it was not.
  std::vector<Cause> WhyItLeft(uint32_t node) const;
  // In a circle: the few ranks that never issued what many wait in; empty: there are none.
  std::vector<Cause> LeftInCircle(const std::vector<uint32_t>& sink) const;
  // Whether the rank's GPU reached the place where its program differs. Before that the difference stops no rank.
  bool CameTo(const Divergence& d) const;
  // Whether rank and holder completed an operation together that the holder issued after `op`.
  bool MetLater(int32_t rank_index, int32_t holder, const Op& op) const;
  // Ends the communicator that others wait in.
  bool LeftTheLoop(int32_t rank_index, uint32_t comm) const;
  Cause CreationCause(const PendingCreation& p, const std::set<int32_t>& waiting_somewhere) const;
  Cause Unexplained(const PendingCreation& p) const;
  // Whichever rank the missing member is, it waits for those that make the communicator. False: not so.
  bool ClosedCreation(const PendingCreation& p, const std::string& call, Cause* c) const;
  std::vector<Cause> FromProcesses() const;
  Cause NoDataCause(int32_t global_rank) const;
  Cause HostCause(uint32_t node) const;
  std::vector<int32_t> FinishedByCountsAlone(const GpuFront& front) const;
  Cause GpuCause(uint32_t node) const;
  Cause FinishedAloneCause(uint32_t node, int32_t alone) const;
  Cause StuckCause(uint32_t node) const;
  Cause NotBegunCause(uint32_t node) const;
  bool OnlyFirstOperationsWaitFor(uint32_t node) const;
  std::set<uint32_t> WaitedIn(uint32_t node) const;
  // Sinks that are ranks without data, and most likely victims themselves.
  std::set<uint32_t> SilentVictims() const;
  // No rank is known to hold up the rest: the ranks whose records of their current operation are gone.
  std::vector<Cause> FromOverwritten();
  Cause FromCounts();
  void NarrowByCounts(std::vector<Cause>* circle);
  // Whether the GPU of a member is known to have failed.
  bool GpuFailed(uint32_t comm) const;
  void AddNetworkSteps(const GpuFront& front, Cause* cause) const;
  void AddOtherOrders(const GpuFront& front, Cause* cause) const;
  std::vector<Cause> CycleCauses(const std::vector<uint32_t>& sink) const;
  // A circle of sends and receives that one rank closed by taking a peer that it never exchanged anything with.
  bool NarrowToStranger(const std::vector<uint32_t>& sink, Cause* c) const;
  // Two operations on different streams that the same members are all in, and that do not end: one hypothesis.
  void JoinStuck(std::vector<Cause>* causes) const;
  Cause LaunchOrderCause(const std::vector<uint32_t>& sink) const;
  Cause DeathCause(int32_t rank_index) const;
  // What is known of a rank without data: its communicators, and the ranks that wait in them for it alone.
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
  // Whether nothing before the place where others wait for a rank without data can have held it up. `still`: the ranks
  // that are already named. A victim whose dump is merely lost would be held up by one of them.
  bool NothingHeldIt(const Silent& silent, const std::set<int32_t>& still) const;
  struct Furthest {
    std::array<int32_t, 2> rank = {-1, -1};
    std::array<int64_t, 2> issued = {-1, -1};
  };
  std::vector<Furthest> FurthestOfEach() const;
  const Membership* SomebodyAheadOf(const std::vector<Furthest>& furthest, int32_t rank_index, int32_t* who) const;
  const Divergence* DivergenceOf(int32_t rank_index) const;
  // An operation that waits for this node: the one closest to the place in the program where it stopped.
  struct Waiter {
    const Edge* edge = nullptr;  // out of the queue or host `from`
    uint32_t from = 0;
  };
  Waiter FirstWaiter(uint32_t node) const;
  const Waiter& FirstIn(uint32_t collective) const;
  void AddWaiterEvidence(uint32_t node, Cause* cause) const;
  // Several ranks that are stuck in the same way become one finding.
  void Merge(std::vector<Cause>* causes, Cause cause) const;
  void AddHostEvidence(int32_t rank_index, Cause* cause) const;
  std::string Who(int32_t rank_index) const;
  // Time from `since_ns` until the rank's data was taken; none: not known.
  std::optional<int64_t> Lasted(const Rank& rank, int64_t since_ns) const;
  // How long the rank has been in the cause's operation.
  EvidenceItem InOperation(int32_t rank_index, const Op& op) const;

  const Model& model_;
  const Bundle& bundle_;
  const std::vector<Mismatch>& mismatches_;
  const std::vector<Divergence>& divergences_;
  const WaitGraph* graph_;
  absl::flat_hash_set<int32_t> damaged_;                    // global ranks
  std::vector<int32_t> divergence_of_rank_;                 // into divergences_, -1 none
  mutable absl::flat_hash_map<uint32_t, Waiter> first_in_;  // by node of a collective
};

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_RULES_CAUSES_H_
