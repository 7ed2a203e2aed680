// Finds the host, switch, rack or rail whose ranks are late now and then, a different one each time.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/facts/factor.h"
#include "analyzer/engine/slow/slow.h"
#include "analyzer/util/chance.h"

namespace lockstep {
std::vector<Cause> Slowness::FindRandomlyLate(const Things& things, const std::vector<bool>& named) const {
  constexpr size_t kLeastSteps = 8, kLeastEvents = 8;
  constexpr double kNearlyAll = 0.8, kOneRank = 0.6, kChance = 1e-4;
  struct Event {
    uint32_t rank;
    int64_t step;  // RankPace::numbers
    int64_t excess_ns;
  };
  // Only own work counts, because a rank that waited for a late one is not late.
  std::vector<Event> events;
  size_t measured = 0, steps = 0;
  for (uint32_t r = 0; r < paces_.ranks.size(); ++r) {
    const RankPace& pace = paces_.ranks[r];
    if (named[r] || pace.durations_only || pace.own_ns.size() < kLeastSteps) continue;
    ++measured;
    steps = std::max(steps, pace.own_ns.size());
    const int64_t usual = Usual(pace.beyond_ns);
    const int64_t noise = ErrorOfSum(noise_ns_[r], std::max(pace.operations, 1u));
    const int64_t bar = std::max(
        {pace.step_ns / 25, static_cast<int64_t>(2 * kWorthOwn * static_cast<double>(Usual(pace.own_ns))), noise});
    for (size_t s = 0; s < pace.own_ns.size(); ++s) {
      if (pace.beyond_ns[s] - usual > bar) events.push_back({r, pace.numbers[s], pace.beyond_ns[s] - usual});
    }
  }
  std::vector<Cause> causes;
  if (events.size() < kLeastEvents || paces_.step_ns <= 0) return causes;
  const Things::Thing* best = nullptr;
  std::vector<const Event*> best_events;
  for (const Things::Thing& thing : things.things) {
    size_t here_measured = 0;
    for (int32_t r : thing.ranks) {
      const RankPace& pace = paces_.ranks[static_cast<size_t>(r)];
      here_measured += !named[static_cast<size_t>(r)] && !pace.durations_only && pace.own_ns.size() >= kLeastSteps;
    }
    if (here_measured < 2 || here_measured * 2 > measured) continue;
    std::vector<const Event*> here;
    std::map<uint32_t, size_t> by_rank;
    for (const Event& e : events) {
      if (!std::binary_search(thing.ranks.begin(), thing.ranks.end(), static_cast<int32_t>(e.rank))) continue;
      here.push_back(&e);
      ++by_rank[e.rank];
    }
    const auto count = static_cast<double>(here.size());
    const double share = count / static_cast<double>(events.size());
    if (here.size() < kLeastEvents || share < kNearlyAll || by_rank.size() < std::max<size_t>(2, here_measured / 4))
      continue;
    size_t most = 0;
    for (const auto& [rank, times] : by_rank) most = std::max(most, times);
    if (static_cast<double>(most) > kOneRank * count) continue;
    if (AtMostByChance(static_cast<double>(events.size()), share,
                       static_cast<double>(here_measured) / static_cast<double>(measured)) > kChance)
      continue;
    // Things are sorted by kind, smallest first; a larger one that contains a smaller one adds no information.
    if (best != nullptr && thing.ranks.size() >= best->ranks.size()) continue;
    best = &thing;
    best_events = std::move(here);
  }
  if (best == nullptr) return causes;
  // Time that the latest rank of each step costs the job.
  std::map<int64_t, int64_t> worst;  // indexed by step
  std::map<uint32_t, size_t> by_rank;
  for (const Event* e : best_events) worst[e->step] = std::max(worst[e->step], e->excess_ns), ++by_rank[e->rank];
  int64_t cost = 0;
  for (const auto& [step, ns] : worst) cost += ns;
  cost /= static_cast<int64_t>(steps);
  if (static_cast<double>(cost) < kWorthSaying * static_cast<double>(paces_.step_ns)) return causes;
  int64_t noise = 0;
  for (int32_t r : best->ranks) noise = std::max(noise, noise_ns_[static_cast<size_t>(r)]);
  const bool host = std::string_view(best->kind) == "host";
  Cause c = CauseOf(host ? SLOW_HOST : STRAGGLER, REASON_LATE_IN_TURNS, GRADE_FAIR, best->ranks);
  c.cause = host ? "host" : "late";
  c.pattern = "random";
  c.cost_ns_per_step = cost;
  c.cost_uncertainty_ns = 2 * noise;
  c.CountOf(worst.size(), steps).Name(absl::StrCat(best->kind, " ", best->name));
  c.detail.set_duration_ns(cost);
  SetFactor(*best, by_rank.size(), &c);
  std::vector<int32_t> late;
  late.reserve(by_rank.size());
  for (const auto& [rank, times] : by_rank) late.push_back(static_cast<int32_t>(rank));
  Detail* there =
      c.Add(Evidence::LATE_IN_ONE_PLACE, std::move(late)).CountOf(best_events.size(), events.size()).mutable_detail();
  there->set_number(static_cast<int64_t>(by_rank.size()));
  there->set_other_number(static_cast<int64_t>(best->ranks.size()));
  there->set_value(static_cast<double>(best->ranks.size()) / static_cast<double>(std::max<size_t>(measured, 1)));
  causes.push_back(std::move(c));
  return causes;
}

}  // namespace lockstep
