// Finds faults that no rank waits for yet. If two faults are independent, the first one stops the ranks that would
// later have waited for the second. The record of the second faulty rank still shows its fault.
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/engine/facts/process_place.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/engine/rules/rules.h"
#include "analyzer/model/call_kinds.h"

namespace lockstep {

namespace {

// A fault found in addition to a cause that explains the waits is listed after that cause, with lower confidence,
// because the two may be independent.
constexpr Grade kBeside = GRADE_GOOD;

int64_t Issued(const Facts& facts, const Member& m) { return facts.model.MembershipOf(m).issued; }

// For each communicator, the member that issued the most collectives, or null.
std::vector<const Member*> FurthestOfEach(const Facts& facts) {
  std::vector<const Member*> furthest;
  for (const CommView& view : facts.model.comms) {
    furthest.push_back(nullptr);
    for (const Member& m : view.members) {
      if (!m.recorded() || m.left || facts.bundle.ranks[m.rank_index].damaged) continue;
      if (furthest.back() == nullptr || Issued(facts, m) > Issued(facts, *furthest.back())) furthest.back() = &m;
    }
  }
  return furthest;
}

// Returns a member of one of the rank's communicators that issued a collective that the rank did not issue. Null if
// there is no such member.
const Member* SomebodyAheadOf(const Facts& facts, const std::vector<const Member*>& furthest, int32_t rank_index) {
  for (const Membership& ms : facts.bundle.ranks[rank_index].memberships) {
    const Member* ahead = furthest[ms.comm];
    const bool known = ms.issued >= 0 || ms.issued == kNone;
    const bool over = ms.state == ring::CommState::kAborted || ms.state == ring::CommState::kDestroyed;
    if (!known || over || ahead == nullptr || facts.model.comms[ms.comm].used_for_p2p) continue;
    if (Issued(facts, *ahead) > std::max<int64_t>(ms.issued, 0)) return ahead;
  }
  return nullptr;
}

}  // namespace

std::vector<Cause> FromBeside(const Facts& facts, const std::vector<Cause>& known) {
  std::vector<Cause> causes;
  if (facts.graph == nullptr || known.empty() || !facts.model.stalled) return causes;
  const std::vector<const Member*> furthest = FurthestOfEach(facts);
  for (size_t i = 0; i < facts.model.ranks.size(); ++i) {
    const auto r = static_cast<int32_t>(i);
    const Rank& rank = facts.bundle.ranks[i];
    const RankView& view = facts.model.ranks[i];
    const uint32_t node = WaitGraph::HostNode(i);
    // A rank that waits in some operation may be a victim.
    if (!facts.graph->edges[node].empty() || Names(known, r) || rank.damaged || rank.process.consequence) continue;
    const bool left = EndedWell(rank);
    // A framework's dump does not record where the CPU thread is. So such a rank counts only if ranks with the same
    // role continued with the same work unfinished, or if nothing could block the rank any more.
    const bool framework =
        IsFramework(rank) && view.host == HostState::kUnknown &&
        (facts.graph->stopped[i].witness >= 0 || (view.in_flight.empty() && facts.bundle.known_stalled));
    if (view.host != HostState::kElsewhere && view.host != HostState::kStopped && !left && !framework) continue;
    const Member* ahead = SomebodyAheadOf(facts, furthest, r);
    if (ahead == nullptr) continue;
    Cause c = HostCause(facts, node);
    c.grade = std::min(c.grade, kBeside);
    c.beside = true;
    const uint32_t comm = facts.model.CommOf(*ahead);
    if (c.comm == kNoIndex) c.comm = comm;
    c.Add(Evidence::WENT_ON, {ahead->rank_index, r}).Naming(facts.bundle, {ahead->rank_index}).On(facts.bundle, comm);
    Merge(facts, &causes, std::move(c));
  }
  for (const Divergence& d : facts.divergences) {
    if (Names(known, d.rank) || Names(causes, d.rank) || facts.bundle.ranks[d.rank].damaged) continue;
    Cause c = FromDivergence(facts, d);
    c.grade = std::min(c.grade, kBeside);
    c.beside = true;
    Merge(facts, &causes, std::move(c));
  }
  return causes;
}

}  // namespace lockstep
