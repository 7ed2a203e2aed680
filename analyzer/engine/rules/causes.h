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
constexpr double kWaitedForWithoutData = 0.5;

// What the record says is wrong with the GPU itself; empty: nothing.
std::string GpuErrorOf(const Rank& rank);

class Causes {
 public:
  Causes(const Model& model, const std::vector<Mismatch>& mismatches, const std::vector<Divergence>& divergences,
         const WaitGraph* graph);

  // From the wait graph; empty without one.
  std::vector<Cause> FromSinks();
  // Calls that disagree (or were left out, or added) although nothing waits for them, less what `known` explains.
  std::vector<Cause> FromDisagreement(const std::vector<Cause>& known);
  // Of a job that goes on: calls with another reduction or root than all siblings passed at that place, where the other
  // members' records of the call, which would show it, are lost.
  std::vector<Cause> FromUnseenPeers() const;
  // Processes that ended abnormally, less what `known` names.
  std::vector<Cause> FromDeaths(const std::vector<Cause>& known);
  // Processes that ended with status 0, or are stopped, while every other host has waited for its GPU for so long, of
  // which no marks tell.
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
  // Of a job that is known to stand still though nothing in the record does: the one host that launched its CUDA graph
  // less often than all others and is in no wait. Needs no wait graph.
  std::vector<Cause> FromReplays() const;
  // Of a job in which nobody waits in NCCL: the few hosts that do not wait for another process outside of it, as all
  // others are seen to; where there are none, those without data. Needs no wait graph.
  std::vector<Cause> FromRendezvous(int64_t late_after_ns) const;
  // Of a job of which nothing but stacks is known: the few ranks that are in another place of the program than all
  // others.
  std::vector<Cause> FromStacks() const;
  // Ranks that left no data, when nothing else is known to be wrong.
  std::vector<Cause> FromMissing() const;
  // Signature hashes that part although no record shows it; asynchronous errors of NCCL.
  std::vector<Cause> FromHashes();
  std::vector<Cause> FromAsyncErrors();

  // Communicators that did not come to be: adds who did not come to `causes`, and takes out what that explains.
  void AddFromCreations(int64_t late_after_ns, std::vector<Cause>* causes);
  // Communicators that came out other than their siblings; likewise.
  void AddFromSplits(std::vector<Cause>* causes);
  // Independent of `known`, for which others wait: ranks that stand still by themselves or left their program, and whom
  // nobody waits for yet.
  std::vector<Cause> FromBeside(const std::vector<Cause>& known) const;

  Finding ToFinding(const Cause& cause) const;
  void AddWhere(const Cause& cause, Finding* finding) const;
  // Of an operation that a launch of a CUDA graph issued.
  void DescribeReplay(const Cause& cause, Finding* finding) const;

 private:
  // Of FromBeside: hosts that wait where their siblings went on; ranks that counted other calls than their siblings.
  void AddWaitsTooEarly(const std::vector<Cause>& known, std::vector<Cause>* causes) const;
  void AddOtherPrograms(const std::vector<Cause>& known, std::vector<Cause>* causes) const;
  void AddOpenGroups(const std::vector<Cause>& known, std::vector<Cause>* causes) const;
  void AddCirclesBeside(const std::vector<Cause>& known, std::vector<Cause>* causes) const;
  // Keeps of several ranks at odds those that left the order of their siblings, where some did and some did not.
  void Narrow(Cause* cause);
  Cause FromDivergence(const Divergence& d) const;
  Cause FromMismatch(const Mismatch& m) const;
  std::vector<Cause> Explain(const Mismatch& m) const;
  void PreferCounted(const Mismatch& m, Cause* cause) const;
  // Where a rank seems to have left its siblings' program behind what its GPU is in, and it and one that it exchanges
  // with both count apart from their siblings: they left it together, in an exchange that is no longer on record.
  void AddPartner(const Divergence& d, Cause* cause) const;
  // What made the host leave its program, where that shows: the call it came to last was one on which the calls differ,
  // or one that a rank without data had to take part in. Empty: nothing of the kind.
  std::vector<Cause> WhyItLeft(uint32_t node) const;
  // Of a circle: few ranks that never issued what many wait in; empty: nothing of the kind.
  // `beside`: the circle waits for others, too; whoever else waits in its collectives is counted with it.
  std::vector<Cause> LeftInCircle(const std::vector<uint32_t>& sink, bool beside = false) const;
  // Whether the rank's GPU came to where its program left its siblings'. Before that the difference stops nobody.
  bool CameTo(const Divergence& d) const;
  // Whether rank and holder completed an operation together that the holder issued after `op`.
  bool MetLater(int32_t rank_index, int32_t holder, const Op& op) const;
  // Ends the communicator that others wait in.
  bool LeftTheLoop(int32_t rank_index, uint32_t comm) const;
  Cause CreationCause(const PendingCreation& p, const std::set<int32_t>& waiting_somewhere) const;
  Cause Unexplained(const PendingCreation& p) const;
  // Whichever rank the missing member is, it waits for those that make the communicator. False: not so.
  bool ClosedCreation(const PendingCreation& p, const std::string& call, Cause* c) const;
  Cause NoDataCause(int32_t global_rank) const;
  Cause HostCause(uint32_t node) const;
  std::vector<int32_t> FinishedByCountsAlone(const GpuFront& front) const;
  Cause GpuCause(uint32_t node) const;
  Cause FinishedAloneCause(uint32_t node, int32_t alone) const;
  Cause StuckCause(uint32_t node) const;
  Cause NotBegunCause(uint32_t node) const;
  bool OnlyFirstOperationsWaitFor(uint32_t node) const;
  std::set<uint32_t> WaitedIn(uint32_t node) const;
  // Of the sinks, nodes of ranks without data that most likely wait themselves.
  std::set<uint32_t> SilentVictims() const;
  void AddAbsentFromMismatch(const GpuFront& front, std::vector<Cause>* causes) const;
  // Nobody is known to hold up the rest: those whose records of what they are in are gone.
  std::vector<Cause> FromOverwritten();
  Cause FromCounts();
  void NarrowByCounts(std::vector<Cause>* circle);
  // Whether the GPU of a member is known to have failed.
  bool GpuFailed(uint32_t comm) const;
  void AddNetworkSteps(const GpuFront& front, Cause* cause) const;
  void AddOtherOrders(int32_t rank_index, const GpuFront& front, Cause* cause) const;
  std::vector<Cause> CycleCauses(const std::vector<uint32_t>& sink) const;
  // Of a circle of two that send to each other what neither's siblings ever sent there: both left the program together,
  // whichever of them is seen to have left it first. Empty: no such circle.
  std::vector<Cause> BothSendAnew(const std::vector<uint32_t>& sink) const;
  // Whether ranks in the same role have calls with that neighbour on record, and none of this size.
  bool NewToItsRole(int32_t rank_index, const Op& op) const;
  // A circle of sends and receives that one rank closed by taking a peer that it never exchanged anything with.
  bool NarrowToStranger(const std::vector<uint32_t>& sink, Cause* c) const;
  // Two operations on different streams that the same members are all in, and that do not end: one hypothesis.
  void JoinStuck(std::vector<Cause>* causes) const;
  Cause LaunchOrderCause(const std::vector<uint32_t>& sink) const;
  Cause DeathCause(int32_t rank_index) const;
  void NameByCounts(std::vector<Cause>* causes);
  // Of ranks without data: their communicators, and who waits in them for them alone.
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
  // Of one that others wait for, beside the named ones (`still`): whether nothing before that place can have held it,
  // which a rank that merely lost its dump would be held by.
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
  // Several ranks that stand still in the same way are told together.
  void Merge(std::vector<Cause>* causes, Cause cause) const;
  void AddHostEvidence(int32_t rank_index, Cause* cause) const;
  std::string Who(int32_t rank_index) const;
  // For how long, when the rank's data was taken; none: not known.
  std::optional<int64_t> Lasted(const Rank& rank, int64_t since_ns) const;
  std::string Seconds(const Rank& rank, int64_t since_ns) const;  // " for 1.5 s", or nothing
  // That the rank has been in the cause's operation for so long.
  EvidenceItem InOperation(int32_t rank_index, const Op& op) const;

  const Model& model_;
  const Bundle& bundle_;
  const std::vector<Mismatch>& mismatches_;
  const std::vector<Divergence>& divergences_;
  const WaitGraph* graph_;
  std::vector<bool> out_of_order_;                             // made when first needed
  absl::flat_hash_set<int32_t> damaged_;                       // global ranks
  std::vector<int32_t> divergence_of_rank_;                    // into divergences_, -1 none
  mutable std::optional<std::vector<int32_t>> counted_;        // FindOtherPrograms, made when first needed
  mutable std::optional<std::vector<int32_t>> oddly_counted_;  // FindOddlyCounted, likewise
  mutable absl::flat_hash_map<uint32_t, Waiter> first_in_;     // by node of a collective
};

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_RULES_CAUSES_H_
