#include "analyzer/engine/facts/by_design.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "analyzer/engine/facts/mismatch.h"
#include "analyzer/model/call_kinds.h"

namespace lockstep {
namespace {

// Returns the call that most members of a communicator made at that number, or null. Sets `differ` to whether their
// calls differ.
const Op* MajorityCall(const Model& model, uint32_t comm, int64_t seq, bool* differ) {
  constexpr size_t kMostCalls = 8;  // if there are more different calls, there is no majority
  std::vector<std::pair<const Op*, size_t>> calls;
  size_t seen = 0;
  for (const Member& m : model.comms[comm].members) {
    const Op* op = model.FindCollective(m, seq);
    if (op == nullptr) continue;
    ++seen;
    auto same = std::ranges::find_if(calls, [&](const auto& call) {
      return CompareCalls(model.bundle, *call.first, *op, nullptr, nullptr) == FINDING_UNSPECIFIED;
    });
    if (same == calls.end() && calls.size() == kMostCalls) return nullptr;
    if (same == calls.end()) same = calls.insert(calls.end(), {op, 0});
    ++same->second;
  }
  *differ = calls.size() > 1;
  for (const auto& [op, n] : calls) {
    if (seen > 1 && 2 * n > seen) return op;
  }
  return nullptr;
}

// Returns the number of the member's newest collective before this call of the rank, or kUnknown.
int64_t NewestBefore(const Model& model, const Member& member, const Op& op) {
  const Rank& rank = model.bundle.ranks[member.rank_index];
  const auto& calls = model.ranks[member.rank_index].collectives[member.membership];
  const auto after = std::lower_bound(calls.begin(), calls.end(), static_cast<uint32_t>(&op - rank.ops.data()));
  if (after != calls.begin()) return rank.ops[*(after - 1)].seq;
  return after == calls.end() ? kUnknown : rank.ops[*after].seq - 1;  // numbers have no gaps
}

// `d.sibling` is the call that ranks with the same role made instead. Considers the members with which this rank would
// have made that call. Returns whether most of them made the rank's own call after the same number of calls on their
// communicator. If so, they repeat calls a different number of times by design.
bool FellowsCameAlike(const Model& model, const Divergence& d) {
  if (d.own == nullptr || d.sibling == nullptr || !IsCollective(d.own->kind) || !IsCollective(d.sibling->kind))
    return false;
  const uint32_t own = model.CommOf(model.bundle.ranks[d.rank], *d.own);
  const uint32_t other = model.comms[model.CommOf(model.bundle.ranks[d.sibling_rank], *d.sibling)].kind;
  const Member* member = model.comms[own].kind == other ? nullptr : model.MemberOfKind(d.rank, other);
  const int64_t before = member == nullptr ? kUnknown : NewestBefore(model, *member, *d.own);
  if (before == kUnknown) return false;
  int alike = 0, others = 0;
  for (const Member& m : model.comms[model.CommOf(*member)].members) {
    if (!m.recorded() || m.rank_index == d.rank) continue;
    ++others;
    const Member* also = model.MemberOfKind(m.rank_index, model.comms[own].kind);
    const bool both = also != nullptr && model.CommOf(*also) == own;  // numbers of other communicators prove nothing
    const Op* call = both ? model.FindCollective(*also, d.own->seq) : nullptr;
    if (call != nullptr && NewestBefore(model, m, *call) == before) ++alike;
  }
  return 2 * alike > others;
}

// Returns whether all other members with data of the communicator made the rank's additional collective after the same
// number of calls on `d.sibling`'s kind of communicator. If so, they make it by design.
bool AllAdded(const Model& model, const Divergence& d) {
  if (d.type != Divergence::Type::kExtra || d.sibling == nullptr || !IsCollective(d.own->kind)) return false;
  const uint32_t own = model.CommOf(model.bundle.ranks[d.rank], *d.own);
  const uint32_t kind = model.comms[model.CommOf(model.bundle.ranks[d.sibling_rank], *d.sibling)].kind;
  const auto calls_before = [&](const Member& m, const Op& op) {
    const Member* other = model.comms[own].kind == kind ? nullptr : model.MemberOfKind(m.rank_index, kind);
    return other == nullptr ? kUnknown : NewestBefore(model, *other, op);
  };
  int64_t before = kUnknown;
  size_t alike = 0;
  for (const Member& m : model.comms[own].members) {
    if (!m.recorded()) continue;
    const Op* call = model.FindCollective(m, d.own->seq);
    const int64_t number = call == nullptr ? kUnknown : calls_before(m, *call);
    if (number == kUnknown || (alike++ > 0 && number != before)) return false;
    before = number;
  }
  return alike > 1;
}

// The call that the rank added, changed or moved, or the call that it skipped and ranks with the same role made.
struct AtIssue {
  AtIssue(const Model& model, const Divergence& d)
      : own(d.type != Divergence::Type::kSkipped), op(own ? d.own : d.sibling) {
    if (op == nullptr || op->membership == kNoIndex) return;
    kind = model.comms[model.CommOf(model.bundle.ranks[own ? d.rank : d.sibling_rank], *op)].kind;
  }
  bool own;
  const Op* op;
  uint32_t kind = kNoIndex;  // of its communicator
};

// Returns whether the member's next collectives from this number on agree with those of most members, and would not if
// it had skipped or added one before.
bool IsInStep(const Model& model, const Member& member, int64_t seq) {
  constexpr int64_t kMostCalls = 64;  // each is compared with those of all members
  const auto same = [&](const Op& a, const Op* b) {
    return b != nullptr && CompareCalls(model.bundle, a, *b, nullptr, nullptr) == FINDING_UNSPECIFIED;
  };
  bool differ = false, shifted = false;
  const Op* majority = MajorityCall(model, model.CommOf(member), seq, &differ);
  for (const int64_t end = seq + kMostCalls; seq < end; ++seq) {
    const Op* call = model.FindCollective(member, seq);
    if (call == nullptr) break;
    if (!same(*call, majority)) return false;
    majority = MajorityCall(model, model.CommOf(member), seq + 1, &differ);
    shifted |= majority != nullptr && !same(*call, majority);
  }
  return shifted;
}

// Returns whether most members of the communicator made this rank's call at its number, although other members, or the
// compared rank in its own communicator, did not. If so, the rank neither skipped nor added a call.
bool MajorityAgrees(const Model& model, const Divergence& d) {
  const auto [own, op, kind] = AtIssue(model, d);
  if (kind == kNoIndex || !IsCollective(op->kind)) return false;
  const Member* member = model.MemberOfKind(d.rank, kind);
  const Op* call = own || member == nullptr ? (own ? op : nullptr) : model.FindCollective(*member, op->seq);
  if (call == nullptr || member == nullptr) return false;
  const auto same = [&](const Op& other) {
    return CompareCalls(model.bundle, *call, other, nullptr, nullptr) == FINDING_UNSPECIFIED;
  };
  bool differ = false;
  const Op* majority = MajorityCall(model, model.CommOf(*member), call->seq, &differ);
  if (majority == nullptr || !same(*majority)) return false;
  const Member* sibling = model.MemberOfKind(d.sibling_rank, kind);
  const Op* theirs = sibling == nullptr ? nullptr : model.FindCollective(*sibling, call->seq);
  return differ || (theirs != nullptr && !same(*theirs)) ||
         (d.type != Divergence::Type::kReordered && IsInStep(model, *member, call->seq));
}

// Returns whether certainly no other member of the communicator made the collective that the rank seems to have
// skipped. If so, nobody waits there, and the members do without the call by design.
bool NobodyCame(const Model& model, const Divergence& d) {
  if (d.type != Divergence::Type::kSkipped || d.sibling == nullptr || !IsCollective(d.sibling->kind)) return false;
  const uint32_t kind = AtIssue(model, d).kind;
  const Member* member = kind == kNoIndex ? nullptr : model.MemberOfKind(d.rank, kind);
  if (member == nullptr) return false;
  const int64_t before = d.own == nullptr ? model.MembershipOf(*member).issued : NewestBefore(model, *member, *d.own);
  return before != kUnknown && std::ranges::none_of(model.comms[model.CommOf(*member)].members, [&](const Member& m) {
           return !m.recorded() || (m.rank_index != d.rank && m.arrived > before);
         });
}

}  // namespace

bool IsAlone(const Model& model, const Divergence& d) {
  if (d.type == Divergence::Type::kChanged) return false;
  const auto alone = [&](uint32_t comm) {
    return comm == kNoIndex || std::ranges::none_of(model.comms[comm].members, [&](const Member& m) {
             return m.rank_index >= 0 && m.rank_index != d.rank;
           });
  };
  const Member* member = model.MemberOfKind(d.rank, AtIssue(model, d).kind);
  if (alone(member == nullptr ? kNoIndex : model.CommOf(*member))) return true;
  return d.own != nullptr && IsCollective(d.own->kind) && alone(model.CommOf(model.bundle.ranks[d.rank], *d.own));
}

bool IsByDesign(const Model& model, const Divergence& d, bool hung) {
  // A rank that swapped the calls of two communicators made each call like the other members. If the job hangs, the
  // waits identify such a rank; in a job that continued, only the order does.
  if (!hung && d.type == Divergence::Type::kReordered) return false;
  return MajorityAgrees(model, d) || FellowsCameAlike(model, d) || AllAdded(model, d) || NobodyCame(model, d);
}

}  // namespace lockstep
