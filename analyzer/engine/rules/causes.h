// Causes and judgments that several rules share. Each is defined in the file about its subject.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "analyzer/engine/rules/facts.h"

namespace lockstep {

// Several ranks are blamed only if there are at least this many other ranks for each of them.
constexpr size_t kManyAgainstOne = 3;

// Grade of a finding that others wait for a rank without data. The rank may be at fault, or only its file may be
// missing.
constexpr Grade kWaitedForWithoutData = GRADE_OPEN;

// Returns whether the rank began a group, or a framework's batch, and never ended it. In that case, a thread is in the
// group and in no call (sinks.cpp).
bool LeftGroupOpen(const Rank& rank);

// Causes at nodes of the wait graph (host.cpp, stuck.cpp, no_data.cpp).
Cause HostCause(const Facts& facts, uint32_t node);
Cause GpuCause(const Facts& facts, uint32_t node);
Cause NotBegunCause(const Facts& facts, uint32_t node);
// The node is a rank without data that others wait for.
Cause WaitedForWithoutData(const Facts& facts, uint32_t node);
// If members of these communicators left no data, makes `c` name those members instead, with this grade: the ranks of
// `c` may wait for them.
void HoldByUnseen(const Facts& facts, const std::set<uint32_t>& comms, Grade grade, Cause* c);
// Returns whether the operation waits for a member that no record names, and that cannot be a rank without data.
bool MissesUnknown(const Facts& facts, const GpuFront& front);
// Returns whether the GPU of any member is known to have failed.
bool GpuFailed(const Facts& facts, uint32_t comm);

// Cycles in the wait graph (cycle.cpp, left.cpp, overwritten.cpp).
std::vector<Cause> CycleCauses(const Facts& facts, const std::vector<uint32_t>& sink);
// Returns whether others wait for the nodes of the sink (WaitGraph::sinks) only because one rank used the wrong peer.
// If so, `c` names that rank.
bool FromWrongPeer(const Facts& facts, const std::vector<uint32_t>& sink, Cause* c);
// Returns the few ranks that never issued the operation in which many wait, or none.
std::vector<Cause> LeftInCircle(const Facts& facts, const std::vector<uint32_t>& sink);
void NarrowByCounts(const Facts& facts, std::vector<Cause>* circle);

// Processes (deaths.cpp, ended.cpp).
Cause DeathCause(const Facts& facts, int32_t rank_index);
// `ahead` issued the operation of `at`, and the `behind` other members never did. `exited`: these exited with status 0
// instead.
Cause AheadCause(const Facts& facts, const Cause& at, std::vector<int32_t> ahead, size_t behind, bool exited);

// Calls and programs that differ (disagreement.cpp).
Cause FromDivergence(const Facts& facts, const Divergence& d);
std::vector<Cause> Explain(const Facts& facts, const Mismatch& m);
// If a framework's dump shows that the members' calls differ at the process's last call, returns that cause; otherwise
// empty.
std::vector<Cause> WhyItLeft(const Facts& facts, uint32_t node);
// For a hang without another cause: returns ranks whose record of the current operation was overwritten, or ranks whose
// counters show that they left the program of their role.
std::vector<Cause> FromOverwritten(const Facts& facts);
// Returns the sinks (nodes) that are ranks without data and most likely victims themselves.
std::set<uint32_t> SilentVictims(const Facts& facts);
// If there is a known cause, drops the ranks without data that are most likely victims of it.
void SetSilentAside(const Facts& facts, std::vector<Cause>* causes);
// Combines two operations into one hypothesis: the same members are all in both, on different streams, and neither
// completes.
void JoinStuck(const Facts& facts, std::vector<Cause>* causes);
// Combines several ranks that are stuck in the same way into one finding.
void Merge(const Facts& facts, std::vector<Cause>* causes, Cause cause);

}  // namespace lockstep
