// Describes calls that differ, and programs that differ from those of ranks with the same role.

#include "absl/strings/str_cat.h"
#include "analyzer/engine/rules/causes.h"

namespace lockstep {

using ring::CallKind;
using ring::IsPointToPoint;

Cause FromMismatch(const Facts& facts, const Mismatch& m) {
  Cause c = CauseOf(m.kind, REASON_UNSPECIFIED, GRADE_STRONG, m.odd_ranks);
  c.In(m.comm, m.odd_op, m.odd_rank).Names(m.odd_text, m.usual_text);
  c.Call(CallNamed(absl::StrCat("#", m.seq), CommText(facts.bundle, m.comm)));
  if (m.sender >= 0) {
    const bool explained = m.why.kind() != Evidence::FACT;
    c.Call(CallOf(facts.bundle, c.op_rank, *m.odd_op));
    const bool sends = m.odd_op->kind == CallKind::kSend;
    c.detail.mutable_call()->set_text(NumberedName(facts.bundle, *m.odd_op));
    const auto side = [&](int32_t rank_index, bool sender, const std::string& what) {
      return absl::StrCat("rank ", facts.bundle.ranks[rank_index].rank, sender ? " sends " : " expects ", what);
    };
    c.Names(side(c.op_rank, sends, m.odd_text), side(m.usual_rank, !sends, m.usual_text));
    c.reason = m.kind == MISMATCH_SPLITS ? REASON_SPLITS_UNLIKE_PEER : REASON_UNLIKE_PEER;
    c.Flag(c.reason == REASON_UNLIKE_PEER ? m.majority : explained);
    if (explained) c.evidence.push_back({m.why, {c.op_rank, m.usual_rank}});
    c.grade = m.majority ? GRADE_STRONG : GRADE_OPEN;
  } else if (m.kind == MISMATCH_SPLITS) {
    c.reason = m.majority ? REASON_SPLITS_UNEVEN_ALONE : REASON_SPLITS_DO_NOT_ADD_UP;
    c.Call(NumberedCall(facts.bundle, *m.odd_op, m.seq, m.comm));
    c.grade = m.majority ? GRADE_GOOD : GRADE_WEAK;
  } else if (m.usual_op == nullptr) {
    c.reason = REASON_CONTRADICTS_ITSELF;
    c.Call(NumberedCall(facts.bundle, *m.odd_op, m.seq, m.comm));
  } else if (m.by_siblings) {
    c.reason = REASON_UNLIKE_SIBLINGS;
    c.grade = GRADE_GOOD;
  } else if (m.majority) {
    c.reason = REASON_UNLIKE_MEMBERS;
    c.CountOf(m.members_seen - static_cast<int64_t>(m.odd_ranks.size()), m.members_seen);
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
  const Bundle& bundle = facts.bundle;
  const Op* theirs = d.sibling;
  Cause c = CauseOf(FINDING_UNSPECIFIED, REASON_UNSPECIFIED,
                    d.by_history               ? GRADE_FAIR
                    : d.siblings_agreeing >= 3 ? GRADE_STRONG
                                               : GRADE_GOOD,
                    {d.rank});
  if (d.own != nullptr) c.In(facts.model.CommOf(bundle.ranks[d.rank], *d.own), d.own, d.rank);
  if (d.by_history) c.Add(Evidence::ALIKE_BEFORE, {d.rank, d.sibling_rank}).Naming(bundle);
  const auto siblings = [&](Evidence::Kind kind) -> EvidenceItem& {
    return c.Add(kind, {d.sibling_rank, d.rank}).CountOf(d.siblings_agreeing, d.family_size);
  };
  const bool exchange =
      d.type == Divergence::Type::kChanged && IsPointToPoint(d.own->kind) && IsPointToPoint(theirs->kind);
  if (d.type == Divergence::Type::kSkipped) {
    c.kind = RANK_NOT_ARRIVED;
    c.reason = REASON_SKIPPED;
    c.cause = "code mismatch";
    // Uses the number in the rank's own communicator, because ranks with the same role use the same numbers in that
    // kind of communicator.
    const uint32_t comm = facts.model.CommOf(bundle.ranks[d.sibling_rank], *theirs);
    const Member* own = facts.model.MemberOfKind(d.rank, facts.model.comms[comm].kind);
    c.In(own != nullptr ? facts.model.CommOf(*own) : comm, theirs, d.sibling_rank);
    c.Call(NumberedCall(bundle, *theirs, theirs->seq, c.comm));
    EvidenceItem& issued = siblings(Evidence::ROLE_ISSUED).Naming(bundle, {d.rank});
    if (d.own == nullptr) {
      issued.Name(ArgumentsText(bundle, *theirs));
    } else {
      issued.Names(ArgumentsText(bundle, *theirs), ArgumentsText(bundle, *d.own))
          .Flag(d.own->call_site != theirs->call_site && d.own->call_site != kNoIndex && theirs->call_site != kNoIndex);
    }
  } else if (d.type == Divergence::Type::kExtra) {
    c.kind = RANK_AHEAD;
    c.reason = REASON_EXTRA;
    c.Call(NumberedCall(bundle, *d.own, d.own->seq, c.comm));
    siblings(Evidence::ROLE_CONTINUED).Name(ArgumentsText(bundle, *theirs));
  } else if (d.type == Divergence::Type::kReordered || exchange) {
    // Sends and receives of two programs correspond if the direction and the distance to the peer are equal.
    c.kind = exchange ? P2P_UNMATCHED : ORDER_INVERSION;
    c.reason = exchange ? REASON_NO_OTHER_SIDE : REASON_REORDERED;
    c.Call(CallOf(bundle, d.rank, *d.own)).Other(CallOf(bundle, d.sibling_rank, *theirs));
    siblings(exchange ? Evidence::ROLE_ISSUED_LATTER : Evidence::ROLE_OTHER_ORDER);
  } else {
    std::string own_text, their_text;
    c.kind = CompareCalls(bundle, *d.own, *theirs, &own_text, &their_text);
    c.reason = REASON_UNLIKE_SIBLINGS_HERE;
    c.Names(own_text, their_text).Count(d.siblings_agreeing);
    c.Call(NumberedCall(bundle, *theirs, d.own->seq, c.comm));
    c.Add(Evidence::TWO_CALLS, {d.rank, d.sibling_rank})
        .Naming(bundle)
        .Names(ArgumentsText(bundle, *d.own), ArgumentsText(bundle, *theirs))
        .Flag(true);
  }
  return c;
}

}  // namespace lockstep
