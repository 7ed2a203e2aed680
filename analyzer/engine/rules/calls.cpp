// Describes calls that differ, and programs that differ from those of ranks with the same role.

#include "absl/strings/str_cat.h"
#include "analyzer/engine/rules/causes.h"

namespace lockstep {

using ring::CallKind;
using ring::IsPointToPoint;

Cause FromMismatch(const Facts& facts, const Mismatch& m) {
  // If the members alone form no majority, ranks with the same role may show which member left the program.
  Cause c;
  c.kind = m.kind;
  c.In(m.comm, m.odd_op, m.odd_rank);
  c.ranks = m.odd_ranks;
  const std::string on = CommText(facts.bundle, facts.bundle.comms[m.comm]);
  *c.detail.mutable_call() = CallNamed(absl::StrCat("#", m.seq), on);
  c.detail.set_name(m.odd_text);
  c.detail.set_other_name(m.usual_text);
  if (m.sender >= 0) {
    const bool explained = m.why.kind() != Evidence::FACT;
    *c.detail.mutable_call() = CallOf(facts.bundle, facts.bundle.ranks[c.op_rank], *m.odd_op);
    const bool sends = m.odd_op->kind == CallKind::kSend;
    c.detail.mutable_call()->set_text(NumberedName(facts.bundle, *m.odd_op));
    const auto side = [&](int32_t rank_index, bool sender, const std::string& what) {
      return absl::StrCat("rank ", facts.bundle.ranks[rank_index].rank, sender ? " sends " : " expects ", what);
    };
    c.detail.set_name(side(c.op_rank, sends, m.odd_text));
    c.detail.set_other_name(side(m.usual_rank, !sends, m.usual_text));
    c.reason = m.kind == MISMATCH_SPLITS ? REASON_SPLITS_UNLIKE_PEER : REASON_UNLIKE_PEER;
    c.detail.set_flag(c.reason == REASON_UNLIKE_PEER ? m.majority : explained);
    if (explained) c.evidence.push_back({m.why, {c.op_rank, m.usual_rank}});
    c.grade = m.majority ? GRADE_STRONG : GRADE_OPEN;
  } else if (m.kind == MISMATCH_SPLITS) {
    c.reason = m.majority ? REASON_SPLITS_UNEVEN_ALONE : REASON_SPLITS_DO_NOT_ADD_UP;
    *c.detail.mutable_call() = CallNamed(absl::StrCat(OpName(facts.bundle, *m.odd_op), " #", m.seq), on);
    c.grade = m.majority ? GRADE_GOOD : GRADE_WEAK;
  } else if (m.usual_op == nullptr) {
    c.reason = REASON_CONTRADICTS_ITSELF;
    *c.detail.mutable_call() = CallNamed(absl::StrCat(OpName(facts.bundle, *m.odd_op), " #", m.seq), on);
    c.grade = GRADE_STRONG;
  } else if (m.by_siblings) {
    c.reason = REASON_UNLIKE_SIBLINGS;
    c.grade = GRADE_GOOD;
  } else if (m.majority) {
    c.reason = REASON_UNLIKE_MEMBERS;
    c.detail.set_count(m.members_seen - static_cast<int64_t>(m.odd_ranks.size()));
    c.detail.set_of(m.members_seen);
    c.grade = GRADE_RECORDED;
  } else {
    c.reason = REASON_NO_MAJORITY;
    c.grade = GRADE_OPEN;
  }
  if (m.usual_op != nullptr && m.usual_rank >= 0) {
    c.Add(Evidence::TWO_CALLS, {c.op_rank, m.usual_rank})
        .Naming(facts.bundle)
        .Names(ArgumentsText(facts.bundle, *m.odd_op), ArgumentsText(facts.bundle, *m.usual_op));
  }
  return c;
}

Cause FromDivergence(const Facts& facts, const Divergence& d) {
  const Rank& rank = facts.bundle.ranks[d.rank];
  const Rank& sibling = facts.bundle.ranks[d.sibling_rank];
  Cause c;
  c.ranks = {d.rank};
  c.grade = d.by_history ? GRADE_FAIR : d.siblings_agreeing >= 3 ? GRADE_STRONG : GRADE_GOOD;
  if (d.by_history) c.Add(Evidence::ALIKE_BEFORE, {d.rank, d.sibling_rank}).Naming(facts.bundle);
  const auto siblings = [&](Evidence::Kind kind) -> EvidenceItem& {
    return c.Add(kind, {d.sibling_rank, d.rank}).CountOf(d.siblings_agreeing, d.family_size);
  };
  const Op* theirs = d.sibling;
  auto own_comm = [&](const Rank& r, const Op& op) { return r.memberships[op.membership].comm; };
  if (d.type == Divergence::Type::kSkipped) {
    c.kind = RANK_NOT_ARRIVED;
    c.cause = "code mismatch";
    // Uses the number in the rank's own communicator, because ranks with the same role number the calls of that kind of
    // communicator alike.
    c.comm = own_comm(sibling, *theirs);
    if (const Member* own = facts.model.MemberOfKind(d.rank, facts.model.comms[c.comm].kind))
      c.comm = facts.model.CommOf(*own);
    c.op = theirs;
    c.op_rank = d.sibling_rank;
    c.reason = REASON_SKIPPED;
    *c.detail.mutable_call() = CallNamed(absl::StrCat(OpName(facts.bundle, *theirs), " #", theirs->seq),
                                         CommText(facts.bundle, facts.bundle.comms[c.comm]));
    EvidenceItem& issued =
        siblings(Evidence::ROLE_ISSUED).Naming(facts.bundle, {d.rank}).Name(ArgumentsText(facts.bundle, *theirs));
    if (d.own != nullptr) {
      issued.detail()->set_other_name(ArgumentsText(facts.bundle, *d.own));
      issued.Flag(d.own->call_site != theirs->call_site && d.own->call_site != kNoIndex &&
                  theirs->call_site != kNoIndex);
    }
  } else if (d.type == Divergence::Type::kExtra) {
    c.kind = RANK_AHEAD;
    c.In(own_comm(rank, *d.own), d.own, d.rank);
    c.reason = REASON_EXTRA;
    *c.detail.mutable_call() = CallNamed(absl::StrCat(OpName(facts.bundle, *d.own), " #", d.own->seq),
                                         CommText(facts.bundle, facts.bundle.comms[c.comm]));
    siblings(Evidence::ROLE_CONTINUED).Name(ArgumentsText(facts.bundle, *theirs));
  } else if (d.type == Divergence::Type::kReordered) {
    c.kind = ORDER_INVERSION;
    c.In(own_comm(rank, *d.own), d.own, d.rank);
    c.reason = REASON_REORDERED;
    *c.detail.mutable_call() = CallOf(facts.bundle, rank, *d.own);
    *c.detail.mutable_other() = CallOf(facts.bundle, sibling, *theirs);
    siblings(Evidence::ROLE_OTHER_ORDER);
  } else {
    std::string own_text, their_text;
    if (IsPointToPoint(d.own->kind) && IsPointToPoint(theirs->kind)) {
      // Sends and receives of two programs correspond if the direction and the distance to the peer are equal.
      c.kind = P2P_UNMATCHED;
      c.In(own_comm(rank, *d.own), d.own, d.rank);
      c.reason = REASON_NO_OTHER_SIDE;
      *c.detail.mutable_call() = CallOf(facts.bundle, rank, *d.own);
      *c.detail.mutable_other() = CallOf(facts.bundle, sibling, *theirs);
      siblings(Evidence::ROLE_ISSUED_LATTER);
      return c;
    }
    c.kind = CompareCalls(facts.bundle, *d.own, *theirs, &own_text, &their_text);
    c.In(own_comm(rank, *d.own), d.own, d.rank);
    c.reason = REASON_UNLIKE_SIBLINGS_HERE;
    c.detail.set_name(own_text);
    c.detail.set_other_name(their_text);
    c.detail.set_count(static_cast<int64_t>(d.siblings_agreeing));
    *c.detail.mutable_call() = CallNamed(absl::StrCat(OpName(facts.bundle, *theirs), " #", d.own->seq),
                                         CommText(facts.bundle, facts.bundle.comms[c.comm]));
    c.Add(Evidence::TWO_CALLS, {d.rank, d.sibling_rank})
        .Naming(facts.bundle)
        .Names(ArgumentsText(facts.bundle, *d.own), ArgumentsText(facts.bundle, *theirs))
        .Flag(true);
  }
  return c;
}

}  // namespace lockstep
