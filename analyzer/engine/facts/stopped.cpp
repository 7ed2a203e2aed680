#include "analyzer/engine/facts/waits.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace lockstep {
namespace {

// If more operations than this are in flight, a full launch queue may have blocked the process. The queue fills up at
// about, but not exactly, the same call on all ranks.
constexpr size_t kMayFillQueue = 64;
// A single rank that continued may itself be the rank that left the program, so kWitnessed such ranks (called witnesses
// here) are needed. If others stopped at the same place, their processes may merely run ahead of their GPUs by fewer
// calls. So more than kManyPassed times as many ranks must have passed that place.
constexpr int32_t kWitnessed = 2, kManyPassed = 2;
// Approximate number of ranks with the same role that one rank is compared with.
constexpr size_t kAsked = 64;

class Comparer {
 public:
  explicit Comparer(const Model& model) : model_(model) {}

  // Returns whether the rank's place in the program can be compared with that of others. Only for frameworks' dumps,
  // because rings record where the process waits. A rank in two communicators of one kind is not comparable.
  bool Usable(size_t r) const {
    const Rank& rank = model_.bundle.ranks[r];
    if (!IsFramework(rank) || rank.damaged) return false;
    std::set<uint32_t> kinds;
    for (const Membership& ms : rank.memberships) kinds.insert(model_.comms[ms.comm].kind);
    return kinds.size() == rank.memberships.size();
  }

  // Returns the first call that `witness` made after all unfinished work of `rank`, and that `rank` did not make; null
  // if there is none. Earlier calls of `witness` prove nothing, because `rank` may have made other calls before that
  // work. A call that no member of the rank's own communicator made proves nothing either, because its members may
  // repeat calls less often. Sets `same` to whether `witness` has all unfinished work of `rank`, if there is any.
  const Op* WentPast(size_t witness, size_t rank, bool* same) const {
    *same = false;
    const auto &own = model_.ranks[rank].in_flight, &units = model_.ranks[witness].in_flight;
    size_t after = 1;  // the witness waits in `units[0]`, so it did not continue with that call
    if (!NumberAlike(witness, rank)) return nullptr;
    for (const Unit& unit : own) {
      for (uint32_t i : unit.ops) {
        const uint32_t place = Holds(witness, rank, model_.bundle.ranks[rank].ops[i]);
        if (place == kNoIndex) return nullptr;
        after = std::max<size_t>(after, place + 1);
      }
    }
    *same = !own.empty();
    if (units.size() <= std::max(own.size(), after)) return nullptr;
    const Rank& theirs = model_.bundle.ranks[witness];
    for (size_t u = after; u < units.size(); ++u) {
      for (uint32_t i : units[u].ops) {
        const Op& op = theirs.ops[i];
        const CommView& comm = model_.comms[model_.CommOf(theirs, op)];
        const Member* member = model_.MemberOfKind(static_cast<int32_t>(rank), comm.kind);
        if (!IsCollective(op.kind) || comm.used_for_p2p || member == nullptr) continue;
        const int64_t issued = Of(*member).issued;
        if (issued >= 0 && std::max(issued, member->arrived) < op.seq &&
            model_.comms[Of(*member).comm].most_arrived >= op.seq)
          return &op;
      }
    }
    return nullptr;
  }

 private:
  const Membership& Of(const Member& m) const { return model_.MembershipOf(m); }

  // Returns whether the two ranks have about the same numbers in all communicators, as ranks that run one program do.
  bool NumberAlike(size_t a, size_t b) const {
    const auto behind = [](const Membership& p, const Membership& q) {
      return p.issued >= 0 && q.completed >= 0 && p.issued < q.completed;
    };
    for (const Membership& p : model_.bundle.ranks[a].memberships) {
      const CommView& view = model_.comms[p.comm];
      const Member* other = view.used_for_p2p ? nullptr : model_.MemberOfKind(static_cast<int32_t>(b), view.kind);
      if (other != nullptr && (behind(p, Of(*other)) || behind(Of(*other), p))) return false;
    }
    return true;
  }

  // Returns which unit in flight of `witness` corresponds to the operation of `rank`, at the same place in the program;
  // kNoIndex if none does.
  uint32_t Holds(size_t witness, size_t rank, const Op& op) const {
    const Membership& own = model_.bundle.ranks[rank].memberships[op.membership];
    const Member* member = model_.MemberOfKind(static_cast<int32_t>(witness), model_.comms[own.comm].kind);
    if (member == nullptr) return kNoIndex;
    const auto r = static_cast<int32_t>(witness);
    if (!IsPointToPoint(op.kind)) {
      const Op* theirs = model_.FindCollective(*member, op.seq);
      return theirs == nullptr || theirs->kind != op.kind ? kNoIndex : model_.UnitOf(r, theirs);
    }
    // The peer of `witness` at the same distance as the peer of `rank`.
    const int32_t peer = op.root_or_peer - own.member_rank + Of(*member).member_rank;
    const std::vector<Op>& ops = model_.bundle.ranks[witness].ops;
    for (size_t i = model_.ranks[witness].first_in_flight; i < ops.size(); ++i) {
      const Op& other = ops[i];
      if (other.membership == member->membership && other.kind == op.kind && other.seq == op.seq &&
          other.root_or_peer == peer)
        return model_.UnitOf(r, &other);
    }
    return kNoIndex;
  }

  const Model& model_;
};

}  // namespace

std::vector<StoppedHost> FindStoppedHosts(const Model& model, const std::vector<bool>& distrusted) {
  std::vector<StoppedHost> found(model.ranks.size());
  const Comparer comparer(model);
  std::map<uint32_t, std::vector<size_t>> families;  // ranks with the same role
  for (size_t r = 0; r < model.ranks.size(); ++r) {
    if (!distrusted[r] && comparer.Usable(r)) families[model.roles().of_rank[r]].push_back(r);
  }
  for (const auto& [role, family] : families) {
    std::vector<size_t> asked;
    for (size_t i = 0; i < family.size(); i += family.size() / kAsked + 1) asked.push_back(family[i]);
    for (const size_t r : family) {
      const size_t own = model.ranks[r].in_flight.size();
      if (model.ranks[r].host != HostState::kUnknown || own > kMayFillQueue) continue;
      // Only ranks with more calls in flight can show that this rank stopped.
      const auto more = [&](size_t other) { return model.ranks[other].in_flight.size() > std::max<size_t>(own, 1); };
      if (std::ranges::count_if(asked, more) < kWitnessed) continue;
      StoppedHost host;
      int32_t beside = 0;
      for (const size_t other : asked) {
        if (other == r) continue;
        bool same = false;
        const Op* next = comparer.WentPast(other, r, &same);
        if (next != nullptr && host.witnesses++ == 0) host.witness = static_cast<int32_t>(other), host.next = next;
        beside += same && next == nullptr;
      }
      if (host.witnesses >= kWitnessed && host.witnesses > kManyPassed * beside) found[r] = host;
    }
  }
  return found;
}

}  // namespace lockstep
