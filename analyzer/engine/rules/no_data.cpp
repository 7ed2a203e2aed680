// Ranks without data: which of them may be at fault, and which are most likely victims.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/engine/rules/rules.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/util/sorted.h"

namespace lockstep {

namespace {

Cause NoDataCause(const Facts& facts, int32_t global_rank) {
  Cause c = CauseOf(RANK_NO_DATA, REASON_NO_DATA, GRADE_GUESS);
  c.missing = {global_rank};
  for (const Problem& problem : facts.bundle.problems) {
    if (problem.rank != global_rank || !problem.stopped) continue;
    c.reason = REASON_RECORDING_STOPPED;
    c.Name(problem.text);
  }
  return c;
}

// Returns whether every rank that waits for the node waits in the first operation of a communicator.
bool OnlyFirstOperationsWaitFor(const Facts& facts, uint32_t node) {
  bool any = false, all = true;
  facts.EachWaiter(node, [&](const Edge& e, uint32_t from) {
    const Rank& rank = facts.bundle.ranks[facts.graph->RankOf(from)];
    // A lost operation is known only by its number, or from another member's record.
    const std::less<const Op*> before;
    const bool own =
        e.op != nullptr && !before(e.op, rank.ops.data()) && before(e.op, rank.ops.data() + rank.ops.size());
    // A call lost from a damaged record may come after the first operation.
    if (rank.damaged && !own) return;
    any = true;
    bool first = own && IsCollective(e.op->kind) && e.op->seq == rank.memberships[e.op->membership].first_seq;
    if (e.op == nullptr && facts.graph->Kind(from) == WaitGraph::NodeKind::kQueue) {
      // The record of a first operation may have been overwritten if the job continues on other communicators.
      const Membership* ms = MembershipIn(rank, e.comm);
      first = ms != nullptr && std::ranges::any_of(facts.graph->QueueOf(from).lost, [&](const auto& lost) {
                return lost.first == e.comm && IsFirst(*ms, lost.second);
              });
    }
    all = all && first;
  });
  return any && all;
}

// Returns the communicators in which a rank waits for this node.
std::set<uint32_t> WaitedIn(const Facts& facts, uint32_t node) {
  std::set<uint32_t> comms;
  facts.EachWaiter(node, [&](const Edge& e, uint32_t) {
    if (e.comm != kNoIndex) comms.insert(e.comm);
  });
  return comms;
}

// Facts about a rank without data: its communicators, and the ranks in them that wait only for it.
struct Silent {
  bool WaitsIn(int32_t rank, const Op* op) const { return waits.contains({rank, op}); }
  bool Waits(int32_t rank) const {
    const auto first = waits.lower_bound({rank, nullptr});
    return first != waits.end() && first->first.first == rank;
  }
  std::vector<std::pair<uint32_t, int32_t>> own;            // communicator, member rank
  std::map<std::pair<int32_t, const Op*>, uint32_t> waits;  // (rank index, operation) to communicator
};

// Returns the facts about these ranks without data. A single pass over the job handles all of them, because a network
// failure may leave thousands.
std::map<int32_t, Silent> SilentRanks(const Facts& facts, const std::vector<int32_t>& global_ranks) {
  std::map<int32_t, Silent> silent;
  if (global_ranks.empty()) return silent;
  auto unseen = UnseenMembers(facts.model);
  for (int32_t rank : global_ranks) silent[rank].own = unseen[rank];
  for (const Queue& queue : facts.graph->queues) {
    for (const Edge& e : facts.graph->edges[facts.graph->NodeOf(queue)]) {
      if (e.op == nullptr) continue;
      uint32_t to = e.to;
      if (facts.graph->Kind(to) == WaitGraph::NodeKind::kCollective && facts.graph->edges[to].size() == 1)
        to = facts.graph->edges[to][0].to;
      if (facts.graph->Kind(to) != WaitGraph::NodeKind::kMissing) continue;
      if (const auto found = silent.find(facts.graph->MissingRank(to)); found != silent.end())
        found->second.waits.try_emplace({queue.rank, e.op}, e.comm);
    }
  }
  return silent;
}

// Takes the exchange between the missing rank (member `me`) and `peer` that corresponds to `like`. Returns whether it
// is over or waits only for the missing rank. `like` is in `alike`, the corresponding communicator of a rank with the
// same role.
bool ExchangeIsOver(const Facts& facts, const Silent& silent, const Member& peer, int32_t me, const CommView& alike,
                    const Op& like) {
  if (!peer.recorded() || facts.bundle.ranks[peer.rank_index].damaged) return false;
  const ring::CallKind reverse = OtherSideOf(like.kind);
  if (!IsFramework(facts.bundle.ranks[peer.rank_index])) {
    const Op* op = facts.model.FindPointToPoint(peer, reverse, me, like.seq);
    return op == nullptr ? facts.model.PeerIssued(peer, reverse, me) >= like.seq
                         : op->state == OpState::kCompleted || silent.WaitsIn(peer.rank_index, op);
  }
  // A framework counts sends and receives by batch, not by pair. So the peer must have reached the same place as the
  // peer of the rank with the same role. The peer must have nothing in flight with the missing rank, unless the peer
  // waits for that rank.
  const Member& counterpart = alike.members[like.root_or_peer];
  const int64_t through = counterpart.recorded() ? facts.model.MembershipOf(counterpart).p2p_completed : kUnknown;
  if (through < 0 || facts.model.MembershipOf(peer).p2p_issued < through) return false;
  bool exchanges = false;
  facts.model.EachInFlight(peer.rank_index, [&](const Op& op) {
    exchanges |= op.membership == peer.membership && IsPointToPoint(op.kind) && op.root_or_peer == me;
  });
  return !exchanges || silent.Waits(peer.rank_index);
}

// Returns whether nothing in this communicator delayed the missing rank, judging by the calls of `sibling`, which waits
// for it in `op`. False if `sibling` has a different role.
bool NothingHeldItIn(const Facts& facts, const Silent& silent, int32_t sibling, const Op& op, uint32_t comm,
                     int32_t me) {
  const CommView& view = facts.model.comms[comm];
  const Member* own = facts.model.MemberOfKind(sibling, view.kind);
  // The rank that waits has a different role, so its calls do not show what the missing rank had to do.
  if (own == nullptr || (view.used_for_p2p && facts.model.MembershipOf(*own).member_rank != me)) return false;
  int64_t before = 0;
  for (const Op* earlier = facts.bundle.ranks[sibling].ops.data(); earlier != &op; ++earlier) {
    if (earlier->membership != own->membership || earlier->state == OpState::kCaptured) continue;
    if (IsCollective(earlier->kind)) before = std::max(before, earlier->seq);
    const Member* peer = IsPointToPoint(earlier->kind) ? facts.model.MemberAt(comm, earlier->root_or_peer) : nullptr;
    if (peer != nullptr &&
        !ExchangeIsOver(facts, silent, *peer, me, facts.model.comms[facts.model.CommOf(*own)], *earlier))
      return false;
  }
  return before == 0 || std::ranges::any_of(view.members, [&](const Member& z) {
           const MemberState state = facts.model.StateOf(z, before);
           return z.recorded() && (state.completed || silent.WaitsIn(z.rank_index, state.op));
         });
}

// Returns false if an operation before the one in which others wait may have delayed the rank without data. The rank
// may be a victim, stuck in an earlier operation that another rank delays. But a rank with the same role that waits for
// the missing rank has passed those operations in its own communicators. If those operations are over in the missing
// rank's communicators, too, or wait only for that rank, nothing delayed the missing rank.
bool NothingHeldIt(const Facts& facts, const Silent& silent) {
  if (silent.own.empty()) return false;  // part of the rank's data exists; the rest is lost
  return std::ranges::any_of(silent.waits, [&](const auto& wait) {
    const auto [rank, op] = wait.first;
    const Rank& sibling = facts.bundle.ranks[rank];
    const auto place = static_cast<size_t>(op - sibling.ops.data());
    if (!IsCollective(op->kind) || sibling.damaged || place >= sibling.ops.size()) return false;
    return std::ranges::all_of(silent.own, [&, r = rank, o = op](const auto& own) {
      return own.first == wait.second || NothingHeldItIn(facts, silent, r, *o, own.first, own.second);
    });
  });
}

}  // namespace

void HoldByUnseen(const Facts& facts, const std::set<uint32_t>& comms, Grade grade, Cause* c) {
  std::set<int32_t> unseen;
  for (const uint32_t comm : comms) {
    for (const Member& m : facts.model.comms[comm].members) {
      if (m.rank_index < 0 && m.global_rank >= 0) unseen.insert(m.global_rank);
    }
  }
  if (unseen.empty()) return;
  c->Is(RANK_NO_DATA, REASON_NO_DATA_OTHERS_WAIT, grade).Of({}).missing.assign(unseen.begin(), unseen.end());
}

std::vector<Cause> FromMissing(const Facts& facts) {
  std::set<int32_t> missing;
  for (const auto& [rank, places] : UnseenMembers(facts.model)) missing.insert(rank);
  // If a rank's record lost its newest part, the rank's current operations are unknown, too.
  for (size_t r = 0; r < facts.bundle.ranks.size() && !missing.empty(); ++r) {
    const Rank& rank = facts.bundle.ranks[r];
    if (rank.damaged && !IsFramework(rank)) missing.insert(rank.rank);
  }
  if (missing.empty()) return {};
  Cause c = NoDataCause(facts, *missing.begin());
  c.missing.assign(missing.begin(), missing.end());
  return {std::move(c)};
}

Cause WaitedForWithoutData(const Facts& facts, uint32_t node) {
  Cause c = NoDataCause(facts, facts.graph->MissingRank(node));
  c.nodes = {node};
  if (c.reason == REASON_RECORDING_STOPPED) {
    c.Flag(true);
  } else {
    c.reason = REASON_NO_DATA_OTHERS_WAIT;
  }
  if (std::ranges::any_of(facts.bundle.ranks,
                          [&](const Rank& rank) { return rank.damaged && rank.rank == c.missing[0]; }))
    c.reason = REASON_DATA_LOST_OTHERS_WAIT;
  c.grade = kWaitedForWithoutData;
  c.first_only = OnlyFirstOperationsWaitFor(facts, node);
  AddWaiterEvidence(facts, node, &c);
  if (c.first_only && c.op == nullptr) c.first_lost = c.comm;
  return c;
}

// On the most used communicators (tensor parallelism), ranks exchange data several times in each layer, so a stopped
// rank's peers wait for it there. If peers wait in this way for some of the ranks without data, the other ranks without
// data are most likely victims, like their own peers, which wait elsewhere.
std::set<uint32_t> SilentVictims(const Facts& facts) {
  struct Waited {
    uint32_t node;
    std::set<uint32_t> comms;
  };
  absl::flat_hash_map<int32_t, Waited> waited;  // indexed by the rank without data
  for (const auto& sink : facts.graph->sinks) {
    if (sink.size() == 1 && facts.graph->Kind(sink[0]) == WaitGraph::NodeKind::kMissing)
      waited[facts.graph->MissingRank(sink[0])] = {sink[0], WaitedIn(facts, sink[0])};
  }
  std::set<uint32_t> victims;
  if (waited.size() < 2) return victims;
  std::vector<int64_t> used(facts.model.kinds.size());
  for (const CommView& view : facts.model.comms) used[view.kind] = std::max(used[view.kind], view.most_arrived);
  const auto inner = static_cast<uint32_t>(std::ranges::max_element(used) - used.begin());
  const bool waited_there = std::ranges::any_of(waited, [&](const auto& of) {
    return std::ranges::any_of(of.second.comms, [&](uint32_t c) { return facts.model.comms[c].kind == inner; });
  });
  if (!waited_there) return victims;
  for (const uint32_t c : facts.model.kinds[inner]) {
    for (const Member& m : facts.model.comms[c].members) {
      const auto of = waited.find(m.global_rank);
      if (of != waited.end() && !of->second.comms.contains(c)) victims.insert(of->second.node);
    }
  }
  return victims;
}

// If there is a known cause, a rank that left no data is most likely a victim of it. Only ranks that nothing can have
// delayed are kept.
void SetSilentAside(const Facts& facts, std::vector<Cause>* causes) {
  std::vector<int32_t> silent;
  for (const Cause& c : *causes) {
    if (c.kind == RANK_NO_DATA) Append(c.missing, &silent);
  }
  std::set<int32_t> by_itself;
  for (const auto& [rank, seen] : SilentRanks(facts, silent)) {
    if (NothingHeldIt(facts, seen)) by_itself.insert(rank);
  }
  std::erase_if(silent, [&](int32_t rank) { return by_itself.contains(rank); });
  std::erase_if(*causes, [&](Cause& c) {
    if (c.kind != RANK_NO_DATA) return false;
    std::erase_if(c.missing, [&](int32_t rank) { return !by_itself.contains(rank); });
    if (c.missing.empty()) return true;
    c.beside = true;
    c.Add(Evidence::HELD_BY_NOTHING, {});
    return false;
  });
  constexpr size_t kNamed = 8;
  std::ranges::sort(silent);
  if (silent.size() > kNamed) silent.resize(kNamed);
  if (silent.empty()) return;
  Detail* rival = causes->front().AddRival(Rival::SECOND_CAUSE);
  for (const int32_t rank : silent) rival->add_ranks(rank);
}

// Returns the ranks whose last call differs from the call that ranks with the same role made there. With a backend that
// records no failures, such a call makes the peers' processes fail, so it is the rank's last.
static std::vector<Cause> FromLastCalls(const Facts& facts) {
  std::vector<Cause> causes;
  for (const Divergence& d : facts.divergences) {
    const Rank& rank = facts.bundle.ranks[d.rank];
    if (d.type != Divergence::Type::kChanged || !rank.ends_untold || d.own == nullptr || d.own != &rank.ops.back())
      continue;
    causes.push_back(FromDivergence(facts, d));
    causes.back().grade = std::min(causes.back().grade, GRADE_WEAK);
  }
  return causes;
}

// With a backend that records no sends, receives, barriers or failures, an idle rank may be waiting for the rank
// without data, or may have failed together with it. One faulty rank whose file is missing for that reason is more
// likely than a fault elsewhere plus a lost file.
void BlameTheSilent(const Facts& facts, std::vector<Cause>* causes) {
  auto silent = UnseenMembers(facts.model);
  // Sends and receives leave no entries, so a rank without data may have exchanged with any other rank of the job.
  constexpr size_t kFew = 64;  // if there are more, they cannot be distinguished
  for (const int32_t rank : RanksWithoutData(facts.bundle, kFew + 1)) silent.try_emplace(rank);
  if (silent.empty() || silent.size() > kFew) return;
  const auto idle = [&](const Cause& c) {
    // A rank whose own record differs from those of ranks with the same role is not merely idle.
    const bool stands = (c.kind == RANK_NOT_ARRIVED && c.reason != REASON_SKIPPED) || c.kind == HOST_STALL;
    const bool untold = std::ranges::all_of(
        c.ranks, [&](int32_t r) { return facts.bundle.ranks[r].ends_untold && facts.model.ranks[r].Idle(); });
    return stands && untold && !c.ranks.empty() && c.ranks.size() <= kFew;
  };
  // In such a backend, a rank whose call differs makes its peer's process fail. That explains the missing file and the
  // idle ranks.
  const auto differs = [&](const Cause& c) {
    return c.beside && c.missing.empty() && !c.ranks.empty() &&
           std::ranges::all_of(c.ranks, [&](int32_t r) { return facts.DivergenceOf(r) != nullptr; });
  };
  if (std::ranges::any_of(*causes, differs)) {
    std::erase_if(*causes, idle);
    for (Cause& c : *causes) c.beside &= !differs(c);
    return;
  }
  if (std::ranges::all_of(*causes, idle)) {
    if (std::vector<Cause> changed = FromLastCalls(facts); !changed.empty()) *causes = std::move(changed);
  }
  for (Cause& c : *causes) {
    if (!idle(c)) continue;
    // The ranks without data that share the smallest communicator with all idle ranks.
    std::vector<int32_t> nearest;
    int32_t size = INT32_MAX;
    for (const auto& [rank, places] : silent) {
      int32_t least = INT32_MAX;
      for (const auto& [comm, number] : places) {
        const auto& members = facts.model.comms[comm].members;
        const bool holds_all = std::ranges::all_of(c.ranks, [&](int32_t r) {
          return std::ranges::any_of(members, [r](const Member& m) { return m.rank_index == r; });
        });
        if (holds_all) least = std::min(least, facts.bundle.comms[comm].size);
      }
      if (least < size) nearest.clear();
      if (least <= size && least != INT32_MAX) nearest.push_back(rank);
      size = std::min(size, least);
    }
    if (nearest.empty()) {
      for (const auto& [rank, places] : silent) nearest.push_back(rank);
    }
    Cause blamed = NoDataCause(facts, nearest[0]);
    blamed.missing = nearest;
    blamed.grade = kWaitedForWithoutData;
    blamed.nodes = std::move(c.nodes);
    blamed.In(c.comm, c.op, c.op_rank);
    blamed.evidence = std::move(c.evidence);
    const EvidenceItem& unrecorded = blamed.Add(Evidence::IDLE_UNRECORDED, c.ranks).Naming(facts.bundle);
    *blamed.AddRival(Rival::LOST_FILE)->mutable_ranks() = unrecorded.fields.detail().ranks();
    c = std::move(blamed);
  }
}

}  // namespace lockstep
