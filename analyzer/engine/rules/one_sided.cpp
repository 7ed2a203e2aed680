// Finds waits for one-sided signals that were never sent.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analyzer/engine/rules/rules.h"

namespace lockstep {
namespace {

const ring::PeerProgress* PeerOf(const Membership& membership, int32_t peer) {
  for (const ring::PeerProgress& progress : membership.recorded->peers) {
    if (progress.peer == peer) return &progress;
  }
  return nullptr;
}

bool MayStillWait(const Op& op) {
  return op.kind == ring::CallKind::kWaitSignal && op.membership != kNoIndex && op.root_or_peer >= 0 &&
         op.state != OpState::kCompleted && op.state != OpState::kFailed && op.state != OpState::kQueued;
}

}  // namespace

void AddOneSided(const Facts& facts, int64_t late_after_ns, std::vector<Cause>* causes) {
  const Bundle& bundle = facts.bundle;
  std::vector<Cause> found;
  std::set<int32_t> waiters;
  for (size_t r = 0; r < bundle.ranks.size(); ++r) {
    const Rank& rank = bundle.ranks[r];
    std::map<std::pair<uint32_t, int32_t>, const Op*> newest;  // membership, peer
    for (const Op& op : rank.ops) {
      if (MayStillWait(op)) newest[{op.membership, op.root_or_peer}] = &op;
    }
    for (const auto& [place, op] : newest) {
      if (!bundle.known_stalled && (rank.captured_ns <= 0 || rank.captured_ns - op->enter_ns < late_after_ns)) continue;
      const Membership& own = rank.memberships[place.first];
      const Member* sender = facts.model.MemberAt(own.comm, place.second);
      const ring::PeerProgress* asked = PeerOf(own, place.second);
      if (own.member_rank < 0 || sender == nullptr || !sender->recorded() || asked == nullptr) continue;
      const Membership& theirs = facts.model.MembershipOf(*sender);
      const ring::PeerProgress* given = PeerOf(theirs, own.member_rank);
      if (given == nullptr && theirs.recorded->peers_lost != 0) continue;  // the count of signals may be lost
      const uint64_t sent = given != nullptr ? given->signals : 0;
      if (asked->waited <= sent) continue;
      Cause c = CauseOf(P2P_UNMATCHED, REASON_SIGNALS_MISSING, GRADE_STRONG, {sender->rank_index});
      c.In(own.comm, op, static_cast<int32_t>(r));
      c.waiting = {static_cast<int32_t>(r)};
      c.op_name = "WaitSignal";
      c.CountOf(sent, asked->waited).Name(CommText(bundle, own.comm));
      c.detail.add_ranks(rank.rank);
      c.Add(Evidence::SIGNALS_ASKED, {static_cast<int32_t>(r)})
          .Naming(bundle)
          .Count(asked->waited)
          .Number(place.second);
      c.Add(Evidence::SIGNALS_SENT, {sender->rank_index}).Count(sent).Number(own.member_rank);
      waiters.insert(static_cast<int32_t>(r));
      found.push_back(std::move(c));
    }
  }
  const bool circle = std::ranges::all_of(found, [&](const Cause& c) { return waiters.count(c.ranks[0]) != 0; });
  if (!circle) std::erase_if(found, [&](const Cause& c) { return waiters.count(c.ranks[0]) != 0; });
  if (found.empty()) return;
  std::erase_if(*causes, [&](const Cause& c) {
    return (c.kind == GPU_STALL || c.kind == HOST_STALL || c.kind == RANK_NOT_ARRIVED) && !c.ranks.empty() &&
           std::ranges::all_of(c.ranks, [&](int32_t r) { return waiters.count(r) != 0; });
  });
  for (Cause& c : found) causes->push_back(std::move(c));
}

}  // namespace lockstep
