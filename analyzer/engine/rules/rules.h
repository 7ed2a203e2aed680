// All rules. Each looks for one kind of fault and returns causes; the engine calls them in a fixed order. A rule that
// takes `known` skips what these causes explain.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/engine/rules/facts.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// The causes at the ends of the wait graph (WaitGraph::sinks); empty if there is no graph.
std::vector<Cause> FromSinks(const Facts& facts);
// Calls that disagree, were skipped or were added, although no rank waits for them.
std::vector<Cause> FromDisagreement(const Facts& facts, const std::vector<Cause>& known);
// Processes that ended abnormally.
std::vector<Cause> FromDeaths(const Facts& facts, const std::vector<Cause>& known);
// Processes that exited with status 0, or are stopped, while GPU progress markers are off. Every other process must
// have waited for its GPU for at least `late_after_ns`.
std::vector<Cause> FromEndsUnderWaits(const Facts& facts, const std::vector<Cause>& known, int64_t late_after_ns);
// Processes that ended without a clean exit while unobserved. Returns causes only if all processes ended unobserved.
std::vector<Cause> FromUnseenEnds(const Facts& facts);
// Ranks that are stuck on their own or left their program, although no rank waits for them yet. `known` are the causes
// that others wait for.
std::vector<Cause> FromBeside(const Facts& facts, const std::vector<Cause>& known);
// Collectives that some members issued and others never did, according to frameworks' dumps that show no other cause.
std::vector<Cause> FromAbsence(const Facts& facts);
// For a job in which no rank waits in NCCL, and nearly all wait for another process outside NCCL. Returns the few that
// do not; if there are none, the ranks without data. Needs no wait graph.
std::vector<Cause> FromRendezvous(const Facts& facts, int64_t late_after_ns);
// For a job of which only processes are known. Returns the few ranks that have ended, are stopped, or whose stacks are
// at a different place in the program. If all ranks wait, returns the ranks without data.
std::vector<Cause> FromStacks(const Facts& facts);
// Returns where the rank is, from its Python stack: "in barrier, called from save_checkpoint() at trainer.py:140" or
// "in load() at data.py:12". Empty without such a stack.
std::string InnermostOf(const Rank& rank);
// For a job whose calls show nothing certain. Returns the few ranks that are in no call, and whose stacks show them
// elsewhere, while all others are in a call.
std::vector<Cause> FromStacksBesideCalls(const Facts& facts);
// Ranks that left no data, if nothing else is known to be wrong.
std::vector<Cause> FromMissing(const Facts& facts);
// Signature hashes that differ although no record shows a different call.
std::vector<Cause> FromHashes(const Facts& facts);
// Lowers the confidence in a cause that names killed processes of several hosts. A launcher kills what is left of a
// job, and the clocks of several hosts do not show which process ended first.
void DoubtKillsOnSeveralHosts(const Bundle& bundle, std::vector<Cause>* causes);
// Asynchronous errors of NCCL.
std::vector<Cause> FromAsyncErrors(const Facts& facts);

// Adds the ranks that owe a one-sided signal for which another rank has waited at least `late_after_ns`. Removes stalls
// and missing arrivals of waiting ranks from `causes`. A rank that itself waits for a signal is a cause only if no
// other rank is.
void AddOneSided(const Facts& facts, int64_t late_after_ns, std::vector<Cause>* causes);
// Adds to `causes` the ranks that never arrived at the creation of a communicator, and removes what they explain.
void AddFromCreations(const Facts& facts, int64_t late_after_ns, std::vector<Cause>* causes);
// Like AddFromCreations, for communicators that differ from others of the same kind.
void AddFromSplits(const Facts& facts, std::vector<Cause>* causes);
// For backends whose groups have no names. If the newest group's size differs from the peers', replaces the causes that
// this difference explains.
void AddFromNewestGroups(const Facts& facts, std::vector<Cause>* causes);
// Handles communicators on which most members ended with the same operation (they exited with status 0, or are idle).
// Names the few ranks that issued an extra call instead, because one extra call is more likely than a fault on most
// ranks.
void BlameTheAhead(const Facts& facts, std::vector<Cause>* causes);
// Blames a rank without data instead of idle ranks that may wait for it in a call that is not recorded.
void BlameTheSilent(const Facts& facts, std::vector<Cause>* causes);

constexpr Grade kAnyone = GRADE_OPEN;  // a doubtful cause below this grade only names ranks that nothing clears
// Drops doubtful causes if another cause is certain, because their ranks are most likely victims of that cause.
void DropDoubtful(std::vector<Cause>* causes);
// Joins hosts that wait for files at the same time. They have one cause, whether or not other ranks already wait for
// each of them.
void JoinStorage(std::vector<Cause>* causes);
// Merges a GPU that reported a CUDA error with its own hanging process into one finding about the GPU.
void FoldHostsOfFailedGpus(std::vector<Cause>* causes);

// Handles data whose capture time is unknown for every rank. The job may have been running. A healthy job that is
// killed leaves the same rings as a hung one, and so does a copied dump. So causes based on operations in flight become
// hypotheses. They remain causes if a record shows activity at least `late_after_ns` after the operation at issue was
// entered. The same applies to processes without recorded calls that were watched only for a few seconds.
void DoubtUnseenEnd(const Bundle& bundle, int64_t late_after_ns, std::vector<Cause>* causes);
// The first operation of a communicator connects its members, which takes time. While all members are in it, the job
// may be late, but is not hung. The same applies to an operation that no GPU has reached because computation is ahead
// of it. Removes such causes, and returns why each is not a hang yet.
std::vector<NotTheCause> TakeLegalOperations(const Model& model, int64_t late_after_ns, std::vector<Cause>* causes);

Finding ToFinding(const Facts& facts, const Cause& cause);
// Adds finding->chain, nearest victims first, and finding->victim_count. At each distance, one link represents all
// ranks that wait in the same kind of operation on communicators of one class.
void AddChain(const Facts& facts, const Cause& cause, Finding* finding);

}  // namespace lockstep
