// Finds culprits from data that outlives the records: counters of calls.
#include <algorithm>
#include <vector>

#include "analyzer/engine/facts/counts.h"
#include "analyzer/engine/rules/causes.h"
#include "analyzer/util/sorted.h"

namespace lockstep {

// Finds ranks whose counters differ from those of their role. Names no rank if there are none, or too many.
Cause FromCounts(const Facts& facts) {
  constexpr size_t kMost = 2;
  Cause c = CauseOf(SILENT_DESYNC, REASON_COUNTED_PROGRAM, GRADE_FAIR);
  c.AddRival(Rival::OTHER_GONE);
  c.ranks = FindOtherPrograms(facts.model);
  if (c.ranks.size() > kMost) c.ranks.clear();
  c.Add(Evidence::COUNTS_BEFORE, c.ranks);
  if (std::any_of(c.ranks.begin(), c.ranks.end(), [&](int32_t r) { return facts.bundle.ranks[r].damaged; })) {
    c.grade = GRADE_WEAK;  // the differing number may be damage
    c.rivals.clear();
    c.Flag(true);
  }
  return c;
}

// If one rank's counts never occur in the program of its role, that rank closed the cycle. Other ranks of the cycle may
// only seem to have skipped a call.
void NarrowByCounts(const Facts& facts, std::vector<Cause>* circle) {
  if (circle->size() != 1) return;
  Cause& c = circle->front();
  const bool left_out = c.reason == REASON_LEFT_OUT;
  if (!left_out && (c.kind != DEADLOCK_CYCLE || c.hypothesis || c.ranks.size() < 2)) return;
  std::vector<int32_t> among = c.ranks;
  if (left_out) {
    const std::set<int32_t> circle_ranks = facts.graph->RanksOf(c.nodes);
    among.insert(among.end(), circle_ranks.begin(), circle_ranks.end());
    SortUnique(&among);
  }
  const Cause odd = FromCounts(facts);
  // If the counts of all of them are unusual, the counts do not show which rank closed the cycle.
  if (odd.ranks.empty() || odd.ranks == c.ranks || odd.ranks == among ||
      !std::includes(among.begin(), among.end(), odd.ranks.begin(), odd.ranks.end()))
    return;
  if (left_out) c.evidence.clear();
  c.evidence.insert(c.evidence.end(), odd.evidence.begin(), odd.evidence.end());
  c.reason = odd.reason;
  c.detail = odd.detail;
  c.detail.set_of(static_cast<int64_t>(among.size() - odd.ranks.size()));
  c.rivals = {};
  c.AddRival(Rival::ORDER_IN_CIRCLE);
  c.ranks = odd.ranks;
  c.grade = odd.grade;
  c.kind = odd.kind;
}

}  // namespace lockstep
