#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "analyzer/engine/rules/causes.h"
#include "analyzer/engine/rules/rules.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/util/sorted.h"

namespace lockstep {

using ring::CallKind;

namespace {

// `holder` is a rank whose record contains `op`. Returns whether it completed, on another communicator, a collective
// that it issued after `op`, and that the rank issued, too.
bool MetLater(const Facts& facts, int32_t rank_index, int32_t holder, const Op& op) {
  const Rank& theirs = facts.bundle.ranks[holder];
  return std::ranges::any_of(theirs.ops, [&](const Op& later) {
    if (later.membership == kNoIndex || later.state != OpState::kCompleted || !NeedsEveryMember(later.kind) ||
        later.membership == op.membership ||
        (op.record_id >= 0 ? later.record_id <= op.record_id : later.enter_ns <= op.enter_ns))
      return false;
    const uint32_t comm = facts.model.CommOf(theirs, later);
    const Membership* ms = MembershipIn(facts.bundle.ranks[rank_index], comm);
    const Member* own = ms == nullptr ? nullptr : facts.model.MemberAt(comm, ms->member_rank);
    return own != nullptr && own->arrived >= later.seq;
  });
}

// Returns whether the rank's records would contain `op` if the rank had issued it. They would if none were lost, or if
// the holder issued `op` after a collective that the rank's records contain.
bool WouldStillBeRecorded(const Facts& facts, int32_t rank_index, int32_t holder, const Op& op) {
  const Rank& rank = facts.bundle.ranks[rank_index];
  return rank.records_lost == 0 || std::ranges::any_of(rank.memberships, [&](const auto& ms) {
           const Member* own = facts.model.MemberAt(ms.comm, ms.member_rank);
           const Membership* also = MembershipIn(facts.bundle.ranks[holder], ms.comm);
           const Member* theirs = also == nullptr ? nullptr : facts.model.MemberAt(ms.comm, also->member_rank);
           if (own == nullptr || theirs == nullptr || own->oldest == kUnknown) return false;
           const Op* shared = facts.model.FindCollective(*theirs, own->oldest);
           return shared != nullptr && shared->record_id < op.record_id;
         });
}

// Returns whether all members except `absent` are at the same place. If they are at several places, the job was
// running, and its data was taken at different times.
bool StopAtOnePlace(const CommView& view, const std::vector<int32_t>& absent) {
  int64_t place = kUnknown;
  for (const Member& m : view.members) {
    if (!m.recorded() || m.arrived < 0 || Contains(absent, m.rank_index)) continue;
    if (place != kUnknown && place != m.arrived) return false;
    place = m.arrived;
  }
  return true;
}

}  // namespace

std::vector<Cause> FromAbsence(const Facts& facts) {
  std::vector<Cause> causes;
  for (uint32_t c = 0; c < facts.model.comms.size(); ++c) {
    const CommView& view = facts.model.comms[c];
    // For each sequence number: how many calls with that number each member made.
    std::map<int64_t, std::vector<int32_t>> counts;
    for (size_t m = 0; m < view.members.size(); ++m) {
      const Member& member = view.members[m];
      if (!member.recorded()) continue;
      for (uint32_t i : facts.model.ranks[member.rank_index].collectives[member.membership]) {
        auto& list = counts[facts.bundle.ranks[member.rank_index].ops[i].seq];
        list.resize(view.members.size(), 0);
        ++list[m];
      }
    }
    for (const auto& [seq, list] : counts) {
      const int32_t most = *std::ranges::max_element(list);
      Cause cause = CauseOf(RANK_NOT_ARRIVED, REASON_NEVER_ENTERED, GRADE_GOOD);
      for (size_t m = 0; m < list.size(); ++m) {
        const Member& member = view.members[m];
        if (member.rank_index < 0 || list[m] == most) continue;
        const Rank& rank = facts.bundle.ranks[member.rank_index];
        if (!IsFramework(rank) || rank.only_active || rank.damaged || member.left) continue;
        if (facts.model.ranks[member.rank_index].seen_moving) continue;  // other ranks may have been read later
        // The member arrived there although the call is missing from the record, or the record begins later.
        if (list[m] == 0 ? member.arrived >= seq || member.oldest > seq : member.arrived > seq) continue;
        cause.ranks.push_back(member.rank_index);
      }
      if (cause.ranks.empty()) continue;
      // Only an operation that needs every member, or the end of a batch, proves that the ranks are missing.
      const Op *first = nullptr, *proof = nullptr;
      int32_t holder = -1;
      for (size_t m = 0; m < list.size(); ++m) {
        if (list[m] != most) continue;
        const Member& member = view.members[m];
        const Rank& rank = facts.bundle.ranks[member.rank_index];
        if (rank.damaged) continue;  // a call that only this damaged record contains may never have been made
        const int32_t lacking = list[0] == most ? 0 : list[0];
        for (const uint32_t i : facts.model.CollectivesAt(member, seq).subspan(lacking)) {
          const Op& op = rank.ops[i];
          if (first == nullptr) first = &op, holder = member.rank_index;
          if (NeedsEveryMember(op.kind) || op.kind == CallKind::kCoalesced || op.batch_end) proof = &op;
        }
        break;
      }
      // The ranks of a running job are not read at the same moment. A rank that was read first has not reached recent
      // operations.
      if (first == nullptr || proof == nullptr || facts.model.Young(facts.bundle.ranks[holder], *first)) continue;
      // If ranks completed a later operation with the holder, they abandoned this operation, too. For example, they
      // aborted the communicator and created it again.
      std::erase_if(cause.ranks, [&](int32_t r) {
        return MetLater(facts, r, holder, *first) || !WouldStillBeRecorded(facts, r, holder, *first);
      });
      if (cause.ranks.empty()) continue;
      if (!StopAtOnePlace(view, cause.ranks)) return {};
      // It is more likely that a few ranks made an extra call than that most ranks skipped one.
      std::vector<int32_t> makers;
      for (size_t m = 0; m < list.size(); ++m) {
        if (list[m] == most) makers.push_back(view.members[m].rank_index);
      }
      if (cause.ranks.size() > makers.size()) {
        Cause ahead = AheadCause(facts, cause.In(c, first, holder), std::move(makers), cause.ranks.size(), false);
        ahead.grade = GRADE_WEAK;
        ahead.Add(Evidence::ENTERED, {})
            .CountOf(ahead.ranks.size(), view.members.size())
            .Call(CallOf(facts.bundle, holder, *first));
        causes.push_back(std::move(ahead));
        break;
      }
      cause.At(facts.bundle, c, *first, holder);
      cause.Add(Evidence::RECORDED_BY, {holder}).Naming(facts.bundle);
      causes.push_back(std::move(cause));
      break;
    }
  }
  return causes;
}

}  // namespace lockstep
