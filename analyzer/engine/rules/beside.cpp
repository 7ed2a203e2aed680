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

using ring::CallKind;
using ring::IsCollective;
using ring::IsPointToPoint;

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

// Returns a member of one of the rank's communicators that issued a collective which the rank did not. If the rank had
// continued like that member, the rank would have issued that collective, too. Null if there is no such member.
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

// A single pass over the whole job handles all silent ranks, because a network failure may leave thousands of them.
std::map<int32_t, Silent> SilentRanks(const Facts& facts, const std::vector<int32_t>& global_ranks) {
  std::map<int32_t, Silent> silent;
  if (global_ranks.empty()) return silent;
  auto unseen = UnseenMembers(facts.model);
  for (int32_t rank : global_ranks) silent[rank].own = unseen[rank];
  for (uint32_t q = 0; q < facts.graph->queues.size(); ++q) {
    const uint32_t node = facts.graph->QueueNode(q);
    for (const Edge& e : facts.graph->edges[node]) {
      if (e.op == nullptr) continue;
      uint32_t to = e.to;
      if (facts.graph->Kind(to) == WaitGraph::NodeKind::kCollective && facts.graph->edges[to].size() == 1)
        to = facts.graph->edges[to][0].to;
      if (facts.graph->Kind(to) != WaitGraph::NodeKind::kMissing) continue;
      if (const auto found = silent.find(facts.graph->MissingRank(to)); found != silent.end())
        found->second.waits.push_back({facts.graph->RankOf(node), e.op, e.comm});
    }
  }
  return silent;
}

// A rank without data may be a victim, stuck in an earlier operation that another rank delays. But a rank with the same
// role that waits for the missing rank has passed those operations in its own communicators. If those operations are
// over in the missing rank's communicators, too, or wait only for that rank, nothing delayed the missing rank.
bool NothingHeldIt(const Facts& facts, const Silent& silent) {
  const auto& [own, waits] = silent;
  if (own.empty()) return false;                    // part of the rank's data exists; the rest is lost
  std::set<std::pair<int32_t, const Op*>> waiting;  // ranks that wait for the missing rank, and for which operation
  std::set<int32_t> who_waits;
  for (const Silent::Wait& wait : waits) {
    waiting.insert({wait.rank, wait.op});
    who_waits.insert(wait.rank);
  }
  auto over = [&](const Member& z, const Op* op, bool done) {
    return op != nullptr ? op->state == OpState::kCompleted || waiting.contains({z.rank_index, op}) : done;
  };
  auto exchanges = [&](const Member& z, int32_t me) {
    bool any = false;
    facts.model.EachInFlight(z.rank_index, [&](const Op& op) {
      any |= op.membership == z.membership && IsPointToPoint(op.kind) && op.root_or_peer == me;
    });
    return any;
  };
  for (const Silent::Wait& wait : waits) {
    if (!IsCollective(wait.op->kind)) continue;
    const Rank& sibling = facts.bundle.ranks[wait.rank];
    if (sibling.damaged) continue;
    const auto place = static_cast<size_t>(wait.op - sibling.ops.data());
    bool free = place < sibling.ops.size();
    for (const auto& [comm, me] : own) {
      if (!free) break;
      if (comm == wait.comm) continue;
      const CommView& view = facts.model.comms[comm];
      const Member* own_part = facts.model.MemberOfKind(wait.rank, view.kind);
      const Membership* alike = own_part == nullptr ? nullptr : &sibling.memberships[own_part->membership];
      // The rank that waits has a different role, so its calls do not show what the missing rank had to do.
      free = alike != nullptr && (!view.used_for_p2p || alike->member_rank == me);
      if (!free) break;
      const uint32_t membership = own_part->membership;
      int64_t before = 0;
      for (size_t i = 0; i < place && free; ++i) {
        const Op& op = sibling.ops[i];
        if (op.membership != membership || op.state == OpState::kCaptured) continue;
        if (IsCollective(op.kind)) before = std::max(before, op.seq);
        const Member* peer = IsPointToPoint(op.kind) ? facts.model.MemberAt(comm, op.root_or_peer) : nullptr;
        if (peer == nullptr) continue;
        const Member& z = *peer;
        const CallKind reverse = OtherSideOf(op.kind);
        if (!z.recorded() || facts.bundle.ranks[z.rank_index].damaged) {
          free = false;
        } else if (facts.bundle.ranks[z.rank_index].source != Source::kFlightRecorder) {
          free = over(z, facts.model.FindPointToPoint(z, reverse, me, op.seq),
                      facts.model.PeerIssued(z, reverse, me) >= op.seq);
        } else {
          // A framework counts sends and receives by batch, not by pair. So the peer must have reached the same place
          // as the peer of the rank with the same role. The peer must have nothing in flight with the missing rank,
          // unless the peer waits for that rank.
          const Member& counterpart = facts.model.comms[alike->comm].members[op.root_or_peer];
          const Membership& theirs = facts.model.MembershipOf(z);
          const bool seen = counterpart.recorded();
          const int64_t through = seen ? facts.model.MembershipOf(counterpart).p2p_completed : kUnknown;
          free =
              through >= 0 && theirs.p2p_issued >= through && (who_waits.contains(z.rank_index) || !exchanges(z, me));
        }
      }
      if (!free || before == 0) continue;
      free = std::any_of(view.members.begin(), view.members.end(), [&](const Member& z) {
        return z.recorded() && over(z, facts.model.FindCollective(z, before), z.completed >= before);
      });
    }
    if (free) return true;
  }
  return false;
}

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
        rank.source == Source::kFlightRecorder && view.host == HostState::kUnknown &&
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
