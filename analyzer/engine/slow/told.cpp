// Builds the cause of a group of stragglers, and groups stragglers without a known host by communicator.
// Slowness::Find groups the others.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/slow/slow.h"
#include "analyzer/util/numbers.h"

namespace lockstep {

Cause Slowness::ToCause(const std::vector<Straggler>& group) const {
  const Bundle& bundle = timing_.model.bundle;
  const Straggler* worst = &group[0];
  for (const Straggler& s : group) {
    if (s.cost_ns > worst->cost_ns) worst = &s;
  }
  Cause c;
  c.kind = STRAGGLER;
  for (const Straggler& s : group) c.ranks.push_back(static_cast<int32_t>(s.rank));
  std::sort(c.ranks.begin(), c.ranks.end());
  const RankPace& pace = paces_.ranks[worst->rank];
  const Rank& rank = bundle.ranks[worst->rank];
  c.comm = worst->comm;
  c.cost_ns_per_step = worst->cost_ns;
  c.cost_uncertainty_ns = worst->uncertainty_ns;
  std::vector<int64_t> factors;
  for (const Straggler& s : group) {
    if (!s.habit) factors.push_back(static_cast<int64_t>(s.slowdown * 1000));  // unknown for ranks found by habit
  }
  c.slowdown = static_cast<double>(Median(std::move(factors))) / 1000;
  c.pattern = "persistent";
  if (worst->since_op >= 0) {
    const Op& op = rank.ops[static_cast<size_t>(worst->since_op)];
    c.op = &op;
    c.op_rank = static_cast<int32_t>(worst->rank);
    c.comm = timing_.model.CommOf(rank, op);
    c.pattern = op.seq >= 0 ? absl::StrCat("since #", op.seq) : "since lately";
  }
  const bool steps = !worst->habit && !pace.own_ns.empty();
  c.reason = worst->habit ? REASON_SLOW_BY_HABIT : REASON_SLOW_WORK;
  c.detail.set_duration_ns(worst->cost_ns);
  c.Flag(steps);
  if (worst->habit) c.detail.set_other_duration_ns(habits_[worst->rank].later_ns);
  // If only durations are known, own work is the rest of a step. A few ranks or steps do not show reliably what is
  // usual.
  const size_t siblings = paces_.roles[pace.role].size();
  c.grade = siblings < 4 || !steps || pace.durations_only ? GRADE_GOOD : GRADE_STRONG;
  if (worst->excess_ns < 3 * worst->uncertainty_ns) c.grade = GRADE_FAIR;
  const LateArrivals& late = lateness_[worst->rank];
  const std::vector<int32_t> only = {static_cast<int32_t>(worst->rank)};
  if (worst->habit) {
    const Habit& habit = habits_[worst->rank];
    Detail* detail = c.Add(Evidence::LATE_BY_HABIT, only)
                         .Naming(bundle)
                         .Count(habit.meetings)
                         .On(bundle, habit.comm)
                         .mutable_detail();
    detail->set_duration_ns(habit.later_ns);
    detail->set_other_duration_ns(habit.usual_ns);
  } else {
    Detail* detail =
        c.Add(Evidence::WORKS_LONGER, only).Naming(bundle).Flag(steps).Number(worst->uncertainty_ns).mutable_detail();
    detail->set_duration_ns(worst->own_ns);
    detail->set_other_duration_ns(worst->own_ns - worst->excess_ns);
  }
  if (late.compared > 0) c.Add(Evidence::CAME_LAST, only).CountOf(late.last, late.compared);
  if (!worst->habit) c.Add(Evidence::DELAY_IS_OWN, only);
  c.cause = "late";
  return c;
}

// If no host is known, reports together the members of communicators that are slow as a whole, smallest kind first.
// That many simultaneous faults are unlikely, and such members are close together: a tensor-parallel group fills a
// host, or a part of it.
void Slowness::TakeWholeGroups(const std::vector<Straggler>& stragglers, std::vector<bool>* told,
                               std::vector<Cause>* causes) const {
  const Bundle& bundle = timing_.model.bundle;
  std::map<uint32_t, const Straggler*> slow;
  for (const Straggler& s : stragglers) {
    if (!(*told)[s.rank] && bundle.ranks[s.rank].host.empty()) slow[s.rank] = &s;
  }
  if (slow.size() < 2) return;
  std::map<std::pair<size_t, uint32_t>, std::vector<uint32_t>> whole;  // maps size and class to the communicators
  std::set<std::pair<size_t, uint32_t>> together;  // sizes and classes whose members are certainly slow together
  for (uint32_t comm = 0; comm < timing_.model.comms.size(); ++comm) {
    const auto& members = timing_.model.comms[comm].members;
    if (members.size() < 2 || members.size() * 2 > bundle.ranks.size()) continue;
    size_t here = 0, measured = 0;
    bool by_habit = false;
    for (const Member& m : members) {
      if (m.rank_index < 0) continue;
      const auto it = slow.find(static_cast<uint32_t>(m.rank_index));
      here += it != slow.end();
      by_habit |= it != slow.end() && ByHabit(it->first) && habits_[it->first].comm == comm;
      measured +=
          paces_.ranks[static_cast<size_t>(m.rank_index)].step_ns > 0 || ByHabit(static_cast<uint32_t>(m.rank_index));
    }
    // A rank late by habit is late relative to the first arrival of the group, which may itself be a slow rank.
    const bool most = here * 4 >= measured * 3 || (by_habit && here * 2 > measured);
    if (here == 0 || here * 2 < members.size() || !most) continue;
    const std::pair kind(members.size(), timing_.model.comms[comm].kind);
    whole[kind].push_back(comm);
    if (here >= 2) together.insert(kind);
  }
  // Communicators with only one known slow member come last: they count as slow as a whole only if nothing else
  // connects that rank with others.
  std::vector<std::pair<size_t, uint32_t>> kinds(together.begin(), together.end());
  for (const auto& [kind, comms] : whole) {
    if (!together.contains(kind)) kinds.push_back(kind);
  }
  for (const auto& kind : kinds) {
    const std::vector<uint32_t>& comms = whole[kind];
    std::vector<Straggler> group;
    std::set<int32_t> ranks;
    for (uint32_t comm : comms) {
      for (const Member& m : timing_.model.comms[comm].members) {
        if (m.rank_index < 0) continue;
        ranks.insert(m.rank_index);
        const auto it = slow.find(static_cast<uint32_t>(m.rank_index));
        if (it == slow.end() || (*told)[it->first]) continue;
        group.push_back(*it->second);
        (*told)[it->first] = true;
      }
    }
    if (group.empty()) continue;
    Cause c = ToCause(group);
    c.ranks.assign(ranks.begin(), ranks.end());
    c.Add(Evidence::SLOW_TOGETHER, c.ranks).CountOf(group.size(), ranks.size()).Number(comms.size());
    causes->push_back(std::move(c));
  }
}

}  // namespace lockstep
