// Finds culprits from data that outlives the records: counters of calls.
#include <algorithm>
#include <utility>
#include <vector>

#include "analyzer/engine/facts/counts.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/engine/rules/rules.h"

namespace lockstep {

// Finds ranks whose counters of sends and receives, or of calls, differ from those of their role. Names no rank if
// there are none, or too many.
Cause FromCounts(const Facts& facts) {
  constexpr size_t kMost = 2;
  Cause c = CauseOf(P2P_UNMATCHED, REASON_COUNTED_EXCHANGES, GRADE_FAIR);
  c.AddRival(Rival::OTHER_GONE);
  c.ranks = FindOddlyCounted(facts.model);
  if (!c.ranks.empty() && c.ranks.size() <= kMost) {
    c.Add(Evidence::COUNTS_OF_SENDS, c.ranks);
    return c;
  }
  c.kind = SILENT_DESYNC;
  c.reason = REASON_COUNTED_PROGRAM;
  c.ranks = FindOtherPrograms(facts.model);
  if (c.ranks.size() > kMost) c.ranks.clear();
  c.Add(Evidence::COUNTS_BEFORE, c.ranks);
  if (std::any_of(c.ranks.begin(), c.ranks.end(), [&](int32_t r) { return facts.bundle.ranks[r].damaged; })) {
    c.grade = GRADE_WEAK;  // the differing number may be damage
    c.rivals.clear();
    c.detail.set_flag(true);
  }
  return c;
}

// For a cycle of ranks with overwritten records: if one rank's counts never occur in the program of its role, that rank
// closed the cycle.
void NarrowByCounts(const Facts& facts, std::vector<Cause>* circle) {
  if (circle->size() != 1) return;
  Cause& c = circle->front();
  if (c.kind != DEADLOCK_CYCLE || c.hypothesis || c.ranks.size() < 2) return;
  const bool lost = std::any_of(c.ranks.begin(), c.ranks.end(), [&](int32_t r) {
    const auto& memberships = facts.bundle.ranks[r].memberships;
    return std::any_of(memberships.begin(), memberships.end(),
                       [](const Membership& ms) { return ms.lost_records > 0; });
  });
  if (!lost) return;
  const Cause odd = FromCounts(facts);
  // In a cycle of two ranks, their counts of sends to each other differ only because both stopped, which proves
  // nothing.
  if (c.ranks.size() == 2 && odd.kind != SILENT_DESYNC) return;
  if (odd.ranks.empty() || !std::includes(c.ranks.begin(), c.ranks.end(), odd.ranks.begin(), odd.ranks.end())) return;
  c.evidence.insert(c.evidence.end(), odd.evidence.begin(), odd.evidence.end());
  c.reason = odd.reason;
  c.detail = odd.detail;
  c.detail.set_of(static_cast<int64_t>(c.ranks.size() - odd.ranks.size()));
  c.rivals = {};
  c.AddRival(Rival::ORDER_IN_CIRCLE);
  c.ranks = odd.ranks;
  c.grade = odd.grade;
  // In this case, the cause of the cycle is known: calls that differ. An extra send or receive may also come from a
  // group that was left open.
  if (odd.kind == SILENT_DESYNC) c.kind = odd.kind;
}

}  // namespace lockstep
