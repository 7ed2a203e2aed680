// Some backends (gloo) do not name their groups. Their dumps contain only the size of the newest group that each
// process created. The size reveals ranks that created a different group than their peers did, or that have not created
// the group yet.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "analyzer/engine/rules/rules.h"

namespace lockstep {
namespace {

// Returns the communicator of the rank's newest call, or kNoIndex.
uint32_t NewestUsed(const Rank& rank) {
  const auto last =
      std::find_if(rank.ops.rbegin(), rank.ops.rend(), [](const Op& op) { return op.membership != kNoIndex; });
  return last == rank.ops.rend() ? kNoIndex : rank.memberships[last->membership].comm;
}

}  // namespace

void AddFromNewestGroups(const Facts& facts, std::vector<Cause>* causes) {
  std::map<int32_t, std::vector<int32_t>> by_size;
  for (size_t r = 0; r < facts.bundle.ranks.size(); ++r) {
    if (facts.bundle.ranks[r].newest_group_size > 0)
      by_size[facts.bundle.ranks[r].newest_group_size].push_back(static_cast<int32_t>(r));
  }
  if (by_size.size() < 2) return;
  const auto usual = std::ranges::max_element(by_size, {}, [](const auto& x) { return x.second.size(); });
  const auto few = [&](const std::vector<int32_t>& ranks) { return 3 * ranks.size() <= usual->second.size(); };
  const auto made = [&](int32_t size, const std::vector<int32_t>& ranks) {
    return EvidenceItem(Evidence::NEWEST_GROUP, ranks).Naming(facts.bundle).Count(size);
  };
  std::set<uint32_t> used;  // communicators of the newest calls of ranks whose newest group has the usual size
  for (const int32_t r : usual->second) used.insert(NewestUsed(facts.bundle.ranks[r]));
  Cause c = CauseOf(SPLIT_MISMATCH, REASON_OTHER_MEMBERS, GRADE_GOOD);
  c.evidence.push_back(made(usual->first, usual->second));
  for (const auto& [size, ranks] : by_size) {
    for (const int32_t r : ranks) {
      const uint32_t comm = size == usual->first ? kNoIndex : NewestUsed(facts.bundle.ranks[r]);
      if (comm == kNoIndex || !used.contains(comm)) continue;
      c.ranks.push_back(r);
      c.comm = comm;
      c.evidence.push_back(made(size, {r}));
    }
  }
  if (!c.ranks.empty() && few(c.ranks)) {
    c.Name(CommText(facts.bundle, c.comm));
    // Ranks whose newest group has another size, and that others wait for, have not created the usual group.
    std::erase_if(*causes, [&](const Cause& known) {
      return !known.ranks.empty() && std::ranges::all_of(known.ranks, [&](int32_t r) {
        return facts.bundle.ranks[r].newest_group_size != usual->first;
      });
    });
    causes->push_back(std::move(c));
    return;
  }
  // Groups that divide the job are created after the group of all ranks.
  const auto whole = by_size.find(facts.bundle.ranks_expected);
  const bool called = std::ranges::any_of(facts.bundle.ranks, [](const Rank& r) { return !r.ops.empty(); });
  if (!causes->empty() || called || whole == by_size.end() || by_size.size() > 2 || !few(whole->second)) return;
  c.ranks = whole->second;
  c.evidence.push_back(made(whole->first, c.ranks));
  c.Is(INIT_INCOMPLETE, REASON_BEHIND_IN_GROUPS, GRADE_WEAK).Count(usual->second.size());
  causes->push_back(std::move(c));
}

}  // namespace lockstep
