// Calls that differ, and programs that differ from those of ranks with the same role.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/engine/rules/rules.h"
#include "analyzer/util/sorted.h"

namespace lockstep {

using ring::CallKind;

static Cause FromMismatch(const Facts& facts, const Mismatch& m) {
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
    const bool splits = m.kind == MISMATCH_SPLITS;
    c.Because(splits ? REASON_SPLITS_UNLIKE_PEER : REASON_UNLIKE_PEER, m.majority ? GRADE_STRONG : GRADE_OPEN);
    c.Flag(splits ? explained : m.majority);
    if (explained) c.evidence.push_back({m.why, {c.op_rank, m.usual_rank}});
  } else if (m.kind == MISMATCH_SPLITS) {
    c.Because(m.majority ? REASON_SPLITS_UNEVEN_ALONE : REASON_SPLITS_DO_NOT_ADD_UP,
              m.majority ? GRADE_GOOD : GRADE_WEAK);
    c.Call(NumberedCall(facts.bundle, *m.odd_op, m.seq, m.comm));
  } else if (m.usual_op == nullptr) {
    c.reason = REASON_CONTRADICTS_ITSELF;
    c.Call(NumberedCall(facts.bundle, *m.odd_op, m.seq, m.comm));
  } else if (m.by_siblings) {
    c.Because(REASON_UNLIKE_SIBLINGS, GRADE_GOOD);
  } else if (m.majority) {
    c.Because(REASON_UNLIKE_MEMBERS, GRADE_RECORDED);
    c.CountOf(m.members_seen - static_cast<int64_t>(m.odd_ranks.size()), m.members_seen);
  } else {
    c.Because(REASON_NO_MAJORITY, GRADE_OPEN);
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
    c.Is(RANK_NOT_ARRIVED, REASON_SKIPPED, c.grade).cause = "code mismatch";
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
      if (facts.model.CommOf(bundle.ranks[d.rank], *d.own) != c.comm) issued.Other(CallOf(bundle, d.rank, *d.own));
    }
  } else if (d.type == Divergence::Type::kExtra) {
    c.Is(RANK_AHEAD, REASON_EXTRA, c.grade).Call(NumberedCall(bundle, *d.own, d.own->seq, c.comm));
    siblings(Evidence::ROLE_CONTINUED).Name(ArgumentsText(bundle, *theirs));
  } else if (d.type == Divergence::Type::kReordered || exchange) {
    // Sends and receives of two programs correspond if the direction and the distance to the peer are equal.
    c.Is(exchange ? P2P_UNMATCHED : ORDER_INVERSION, exchange ? REASON_NO_OTHER_SIDE : REASON_REORDERED, c.grade);
    c.Call(CallOf(bundle, d.rank, *d.own)).Other(CallOf(bundle, d.sibling_rank, *theirs));
    siblings(exchange ? Evidence::ROLE_ISSUED_LATTER : Evidence::ROLE_OTHER_ORDER);
  } else {
    std::string own_text, their_text;
    c.Is(CompareCalls(bundle, *d.own, *theirs, &own_text, &their_text), REASON_UNLIKE_SIBLINGS_HERE, c.grade);
    c.Names(own_text, their_text).Count(d.siblings_agreeing);
    c.Call(NumberedCall(bundle, *theirs, d.own->seq, c.comm));
    c.Add(Evidence::TWO_CALLS, {d.rank, d.sibling_rank})
        .Naming(bundle)
        .Names(ArgumentsText(bundle, *d.own), ArgumentsText(bundle, *theirs))
        .Flag(true);
  }
  return c;
}

// An odd member that skipped, added or moved a call shifts its later ones, which causes the mismatch. For a changed
// call, the majority of the members decides, if there is one.
std::vector<Cause> Explain(const Facts& facts, const Mismatch& m) {
  std::vector<Cause> here;
  std::vector<int32_t> others;  // not known to differ from ranks with the same role
  for (const int32_t r : m.odd_ranks) {
    const Divergence* d = facts.DivergenceOf(r);
    if (d == nullptr) others.push_back(r);
    if (d != nullptr && d->type != Divergence::Type::kChanged) here.push_back(FromDivergence(facts, *d));
  }
  if (here.empty()) here.push_back(FromMismatch(facts, m));
  // Ranks of several roles may take the same wrong branch.
  if (m.majority && (here[0].reason == REASON_EXTRA || here[0].reason == REASON_SKIPPED)) {
    Append(others, &here[0].ranks);
    SortUnique(&here[0].ranks);
  }
  return here;
}

std::vector<Cause> FromDisagreement(const Facts& facts, const std::vector<Cause>& known) {
  std::vector<Cause> causes;
  // A framework's dump has no checksums, so a number in a damaged file may itself be damaged. Without other evidence, a
  // difference in such a file is not reported as a second cause. A cause based on operations that may be complete does
  // not explain calls that are seen to differ.
  std::vector<Cause> sure = known;
  std::erase_if(sure, &Cause::doubtful);
  auto garbled = [&](int32_t r) { return facts.bundle.ranks[r].damaged && IsFramework(facts.bundle.ranks[r]); };
  for (const Mismatch& m : facts.mismatches) {
    std::vector<Cause> here = Explain(facts, m);
    if (!known.empty()) std::erase_if(here, [&](const Cause& c) { return std::ranges::all_of(c.ranks, garbled); });
    for (Cause& c : here) {
      bool explained = false;
      for (int32_t r : c.ranks) explained |= Names(sure, r) || Names(causes, r);
      if (!explained) causes.push_back(std::move(c));
    }
  }
  return causes;
}

std::vector<Cause> WhyItLeft(const Facts& facts, uint32_t node) {
  const int32_t r = facts.graph->RankOf(node);
  if (r < 0 || !IsFramework(facts.bundle.ranks[r])) return {};
  const Rank& rank = facts.bundle.ranks[r];
  const Op* last = nullptr;
  for (const Op& op : rank.ops) {
    if (op.membership == kNoIndex || !IsCollective(op.kind)) continue;
    if (last == nullptr || op.record_id > last->record_id) last = &op;
  }
  if (last == nullptr) return {};
  if (!facts.model.ranks[r].in_flight.empty() && !facts.model.InFlight(r, *last)) return {};
  const uint32_t comm = facts.model.CommOf(rank, *last);
  for (const Mismatch& m : facts.mismatches) {
    if (m.comm == comm && m.seq == last->seq && m.sender < 0) return Explain(facts, m);
  }
  return {};
}

std::vector<Cause> FromHashes(const Facts& facts) {
  std::vector<Cause> causes;
  for (uint32_t c = 0; c < facts.model.comms.size(); ++c) {
    bool shown = false;
    for (const Mismatch& m : facts.mismatches) shown |= m.comm == c && m.sender < 0;
    if (shown) continue;
    std::map<int64_t, std::map<uint64_t, std::vector<int32_t>>> at;
    for (const Member& m : facts.model.comms[c].members) {
      if (!m.recorded()) continue;
      const Membership& ms = facts.model.MembershipOf(m);
      for (const HashCheckpoint& h : ms.checkpoints) at[h.seq][h.hash].push_back(m.rank_index);
      if (ms.signature_hash != 0 && ms.issued > 0) {
        auto& list = at[ms.issued][ms.signature_hash];
        if (!Contains(list, m.rank_index)) list.push_back(m.rank_index);
      }
    }
    int64_t last_equal = 0;
    for (const auto& [seq, hashes] : at) {
      size_t members = 0;
      for (const auto& [hash, list] : hashes) members += list.size();
      if (hashes.size() == 1) {
        if (members > 1) last_equal = seq;
        continue;
      }
      std::vector<std::vector<int32_t>> classes;
      for (const auto& [hash, list] : hashes) classes.push_back(list);
      std::ranges::sort(
          classes, [](const auto& a, const auto& b) { return a.size() != b.size() ? a.size() > b.size() : a < b; });
      const bool majority = classes[0].size() > classes[1].size();
      Cause cause = CauseOf(SILENT_DESYNC, REASON_HASHES_DIFFER, majority ? GRADE_GOOD : GRADE_OPEN);
      cause.comm = c;
      for (size_t i = majority ? 1 : 0; i < classes.size(); ++i) {
        cause.ranks.insert(cause.ranks.end(), classes[i].begin(), classes[i].end());
      }
      std::ranges::sort(cause.ranks);
      for (const int32_t r : facts.graph != nullptr ? cause.ranks : std::vector<int32_t>())
        Append(facts.graph->NodesOf(r), &cause.nodes);
      cause.Name(CommText(facts.bundle, c)).Number(last_equal);
      cause.detail.set_other_number(seq);
      causes.push_back(std::move(cause));
      break;
    }
  }
  return causes;
}

}  // namespace lockstep
