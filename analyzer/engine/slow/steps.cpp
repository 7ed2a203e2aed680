// Finds ranks whose own work takes longer than that of ranks with the same role. Compares steps, places in steps, or
// arrivals at operations.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "analyzer/engine/slow/places.h"
#include "analyzer/engine/slow/slow.h"
#include "analyzer/util/numbers.h"

namespace lockstep {
namespace {

// With fewer than kFewSteps steps, a rank must be slower by at least kWorthOfVeryFew. With fewer than kManySteps, a
// rank that is slower by less than kWorthOfFew must be clearly separate from the others.
constexpr size_t kFewSteps = 3;
constexpr double kWorthOfFew = 0.15, kWorthOfVeryFew = 0.25;
// A delay does not count as chance if the probability that chance delays any rank in this way is below this.
constexpr double kByChance = 1e-3;
// In a group of two or three, the first to arrive may be as slow as the others.
constexpr size_t kLeastGroup = 4;
// With at least this many steps, some of them need not be slow.
constexpr size_t kEnoughSteps = 6;
// With at least this many steps, a small excess is enough (see kFewSteps).
constexpr size_t kManySteps = 16;
// With at least this many steps, the last ones are compared with the earlier ones.
constexpr size_t kLeastLately = 8;
// The excess of a rank's steps must be this many times their variation divided by the square root of their number.
constexpr double kClear = 8.5;
// The ratio of standard deviation to median deviation, for normally distributed values.
constexpr double kDeviation = 1.4826;

// Estimates how much a rank's steps vary, as a standard deviation. It is derived from the median deviation, so a single
// delayed step has little effect. Uses the steps of all ranks of a role, because those of one rank are too few. Omits
// one step per rank, the median itself, because its deviation is always zero. Omits ranks whose values are all zero:
// the others were measured against them.
double VariationOf(const std::vector<std::vector<int64_t>>& steps_of_ranks) {
  std::vector<int64_t> pooled, deviations;
  for (const std::vector<int64_t>& steps : steps_of_ranks) {
    if (std::all_of(steps.begin(), steps.end(), [](int64_t ns) { return ns == 0; })) continue;
    const int64_t middle = Median(steps);
    deviations.clear();
    for (const int64_t value : steps) deviations.push_back(std::abs(value - middle));
    std::iter_swap(std::min_element(deviations.begin(), deviations.end()), deviations.end() - 1);
    pooled.insert(pooled.end(), deviations.begin(), deviations.end() - 1);
  }
  return kDeviation * static_cast<double>(Median(std::move(pooled)));
}

// Returns how much a single rank's steps vary: their standard deviation, without the sixth of the steps that deviates
// most. By chance, one rank may be delayed in more steps than the role's other ranks.
double OwnVariationOf(const std::vector<int64_t>& steps) {
  const int64_t middle = Usual(steps);
  std::vector<double> deviations;
  deviations.reserve(steps.size());
  for (const int64_t value : steps) deviations.push_back(std::abs(static_cast<double>(value - middle)));
  std::sort(deviations.begin(), deviations.end());
  deviations.resize(steps.size() - steps.size() / 6);
  double squares = 0;
  for (const double d : deviations) squares += d * d;
  return std::sqrt(squares / static_cast<double>(std::max<size_t>(deviations.size(), 2) - 1));
}

// Returns whether the ranks of a role that take at least `value` are clearly separate from the rest. There must be a
// gap below `value` that is twice as wide as the spread of the values under it. At least half of all values must be
// under it. Two distinct groups have such a gap; a role that merely varies does not. In a role of three ranks, two may
// be slow.
bool StandsClear(std::vector<int64_t> values, int64_t value) {
  const size_t half = values.size() <= 3 ? 1 : (values.size() + 1) / 2;
  std::sort(values.begin(), values.end());
  for (size_t i = half; i < values.size() && values[i] <= value; ++i) {
    if (values[i] - values[i - 1] >= 2 * (values[i - 1] - values[0])) return true;
  }
  return false;
}

}  // namespace

// Returns whether only the durations of a few steps are known. They are weak evidence for a rank's own work, because
// own work then includes waits in operations without a duration.
bool Slowness::FewSteps(uint32_t rank) const {
  return timing_.model.bundle.ranks[rank].time_source == TimeSource::kFrameworkDurations &&
         paces_.ranks[rank].own_ns.size() < kFewSteps;
}

bool Slowness::ByHabit(uint32_t rank) const {
  return !habits_.empty() && habits_[rank].comm != kNoIndex &&
         timing_.model.comms[habits_[rank].comm].members.size() >= kLeastGroup && FewSteps(rank);
}

// Adds ranks that are late by habit to those already known to be slow from their steps.
void Slowness::FindLateByHabit(std::vector<Straggler>* found) const {
  std::vector<bool> told(timing_.ranks.size());
  for (const Straggler& s : *found) told[s.rank] = true;
  for (uint32_t r = 0; r < timing_.ranks.size(); ++r) {
    if (told[r] || !ByHabit(r)) continue;
    const Habit& habit = habits_[r];
    if (habit.later_ns <= std::max(kClearlyLater * habit.usual_ns, 2 * noise_ns_[r])) continue;
    if (habit.by_chance > kByChance) continue;
    if (static_cast<double>(habit.waited_ns) < kWorthOwn * static_cast<double>(habit.span_ns)) continue;
    Straggler s;
    s.rank = r;
    s.habit = true;
    s.excess_ns = s.cost_ns = habit.waited_ns;
    s.uncertainty_ns =
        static_cast<int64_t>(static_cast<double>(habit.usual_ns + 2 * noise_ns_[r]) * std::sqrt(habit.meetings));
    s.slowdown = 0;
    s.comm = habit.comm;
    found->push_back(s);
  }
}

void Slowness::FindLongPlaces(std::vector<Straggler>* found) const {
  const std::vector<PlacePace> paces = ComparePlaces(timing_, paces_, noise_ns_);
  for (uint32_t r = 0; r < paces.size(); ++r) {
    const PlacePace& pace = paces[r];
    if (!paces_.ranks[r].own_ns.empty() || pace.places == 0 || pace.by_chance > kByChance) continue;
    // The median shows by how much; three of four places show that it is consistent.
    if (pace.ratio < 1 + kWorthOfFew || pace.least_ratio < 1 + kWorthOfFew / 2) continue;
    Straggler s;
    s.rank = r;
    s.slowdown = pace.ratio;
    s.excess_ns = std::min(pace.own_ns - pace.others_ns,
                           static_cast<int64_t>((pace.ratio - 1) * static_cast<double>(pace.others_ns)));
    if (static_cast<double>(s.excess_ns) < kWorthSaying * static_cast<double>(paces_.ranks[r].step_ns)) continue;
    s.own_ns = pace.others_ns + s.excess_ns;
    s.uncertainty_ns = ErrorOfSum(noise_ns_[r], pace.places);
    found->push_back(s);
  }
}

void Slowness::FindSlowInRole(const std::vector<uint32_t>& whole_role, std::vector<Straggler>* found) const {
  std::vector<uint32_t> role;
  for (uint32_t r : whole_role) {
    if (!paces_.ranks[r].own_ns.empty() && paces_.ranks[r].step_ns > 0) role.push_back(r);
  }
  if (role.size() < 2) return;
  std::vector<int64_t> usual, spread, own;
  std::vector<std::vector<int64_t>> beyond;
  for (uint32_t r : role) {
    const RankPace& pace = paces_.ranks[r];
    usual.push_back(Usual(pace.beyond_ns));
    spread.push_back(std::abs(usual.back()));
    own.push_back(Usual(pace.own_ns));
    beyond.push_back(pace.beyond_ns);
  }
  // The faster quarter of the ranks shows how long the work takes. With only two ranks, the faster one does.
  const int64_t normal = Quantile(&own, 0.25);
  // If durations exceed the step, operations overlap, and the remainder of the step is not own work.
  if (normal <= 0 && paces_.ranks[role.front()].durations_only) return;
  // How much the ranks of this role that are not slow vary.
  const int64_t stray = Quantile(&spread, 0.25);
  const double varies = VariationOf(beyond);
  for (size_t k = 0; k < role.size(); ++k) {
    const uint32_t r = role[k];
    const RankPace& pace = paces_.ranks[r];
    Straggler s;
    s.rank = r;
    s.excess_ns = usual[k];
    s.own_ns = normal + s.excess_ns;
    const size_t steps = pace.own_ns.size();
    s.uncertainty_ns = ErrorOfSum(noise_ns_[r], pace.operations / 3.0 / static_cast<double>(steps)) + 3 * stray;
    const auto base = static_cast<double>(std::max<int64_t>(normal, pace.step_ns / 20));
    s.slowdown = 1 + static_cast<double>(s.excess_ns) / base;
    if (s.excess_ns <= s.uncertainty_ns || s.slowdown < 1 + kWorthOwn) continue;
    if (static_cast<double>(s.excess_ns) < kWorthSaying * static_cast<double>(pace.step_ns)) continue;
    // Over a few steps, occasional delays do not average out. So a small excess is evidence only against a rank that is
    // clearly separate from the others.
    if (steps < kFewSteps && (s.slowdown < 1 + kWorthOfVeryFew || !StandsClear(usual, usual[k]))) continue;
    if (steps < kManySteps && s.slowdown < 1 + kWorthOfFew && !StandsClear(usual, usual[k])) continue;
    // If a rank waits in some kind of operation for as long as its supposed lateness, the lateness comes from that
    // wait.
    s.doubtful = pace.durations_only && std::any_of(pace.waits_ns.begin(), pace.waits_ns.end(), [&](const auto& waits) {
                   return Usual(waits.second) > s.excess_ns / 2;
                 });
    s.brief = pace.durations_only && steps < 2;
    // Work that may actually have been waiting does not make a rank slow.
    if (!pace.durations_only && (pace.least_own_ns - normal) * 2 < s.excess_ns) continue;
    // Chance may hit just one rank, so its own variation counts as well.
    const double most = std::max(varies, OwnVariationOf(beyond[k]));
    if (static_cast<double>(s.excess_ns) <
        kClear * most / std::sqrt(static_cast<double>(std::max<size_t>(steps, 2) - 1)))
      continue;
    // In how many of its steps the rank is slow, and since when.
    size_t slow = 0, run = 0;
    bool running = true;
    for (int64_t ns : pace.beyond_ns) {
      const bool here = ns > s.excess_ns / 2;
      slow += here;
      running &= here;
      run += running;
    }
    // With only a few steps, a step that is not slow shows that the others may be slow by chance.
    if (steps < kEnoughSteps ? slow < steps : slow * 10 < steps * 7) continue;
    if (run + 2 <= steps && slow == run && run >= 3 &&
        std::all_of(pace.beyond_ns.begin() + static_cast<ptrdiff_t>(run), pace.beyond_ns.end(),
                    [&](int64_t ns) { return ns < s.excess_ns / 4; })) {
      s.since_op = pace.first_op[run - 1];
    }
    found->push_back(s);
  }
}

void Slowness::FindSlowLately(std::vector<Straggler>* found) const {
  std::vector<bool> slow_all_along(timing_.ranks.size());
  for (const Straggler& s : *found) slow_all_along[s.rank] = true;
  for (const auto& role : paces_.roles) {
    std::vector<std::vector<int64_t>> of_role;
    of_role.reserve(role.size());
    for (uint32_t r : role) of_role.push_back(paces_.ranks[r].beyond_ns);
    const double varies = VariationOf(of_role);
    for (uint32_t r : role) {
      const RankPace& pace = paces_.ranks[r];
      const std::vector<int64_t>& beyond = pace.beyond_ns;
      const size_t steps = beyond.size();
      if (steps < kLeastLately || slow_all_along[r]) continue;
      std::vector<int64_t> own = pace.own_ns, sorted = beyond;
      const int64_t normal = Quantile(&own, 0.25), before = Quantile(&sorted, 0.25);
      const int64_t worth =
          std::max(static_cast<int64_t>(kWorthOwn * 2 * static_cast<double>(normal)), pace.step_ns / 25);
      const auto late = [&](int64_t ns) { return ns - before > worth; };
      const auto end = std::find_if_not(beyond.begin(), beyond.end(), late);
      const auto run = static_cast<size_t>(end - beyond.begin());
      if (run < 4 || run * 2 > steps + 1 || std::any_of(end, beyond.end(), late)) continue;
      Straggler s;
      s.rank = r;
      s.excess_ns = Usual({beyond.begin(), end}) - Usual({end, beyond.end()});
      if (s.excess_ns <= worth) continue;
      // With few steps, the newest ones may be the longest just by chance.
      const double few = 1.0 / static_cast<double>(run) + 1.0 / static_cast<double>(steps - run);
      if (static_cast<double>(s.excess_ns) < kClear * varies * std::sqrt(few)) continue;
      s.uncertainty_ns = ErrorOfSum(noise_ns_[r], pace.operations / 3.0 / static_cast<double>(run));
      if (s.excess_ns <= s.uncertainty_ns) continue;
      s.slowdown =
          1 + static_cast<double>(s.excess_ns) / static_cast<double>(std::max<int64_t>(normal, pace.step_ns / 20));
      s.own_ns = normal + s.excess_ns;
      s.since_op = pace.first_op[run - 1];
      found->push_back(s);
    }
  }
}

// A doubtful rank, or one with a single slow step, counts only if at least half of its host's ranks are certainly slow.
// If hosts are unknown, half of its group must be slow for a doubtful rank. A rank with a single slow step then needs
// another member of the group that is slow in several steps.
void Slowness::DropDoubtful(std::vector<Straggler>* found) const {
  const Bundle& bundle = timing_.model.bundle;
  std::map<std::string, int> certain, present;
  for (const Straggler& s : *found) certain[bundle.ranks[s.rank].host] += !s.doubtful;
  for (const Rank& rank : bundle.ranks) ++present[rank.host];
  std::map<uint32_t, size_t> certain_in, lasting_in;  // number of such ranks, by communicator
  for (const Straggler& s : *found) {
    for (const Membership& m : bundle.ranks[s.rank].memberships)
      certain_in[m.comm] += !s.doubtful, lasting_in[m.comm] += !s.doubtful && !s.brief;
  }
  std::erase_if(*found, [&](const Straggler& s) {
    if (!s.doubtful && !s.brief) return false;
    const Rank& rank = bundle.ranks[s.rank];
    if (!rank.host.empty()) return certain[rank.host] * 2 < present[rank.host];
    return std::none_of(rank.memberships.begin(), rank.memberships.end(), [&](const Membership& m) {
      const size_t size = timing_.model.comms[m.comm].members.size();
      return s.doubtful ? size >= 4 && certain_in[m.comm] * 2 >= size
                        : size < bundle.ranks.size() && lasting_in[m.comm] > 0;
    });
  });
}

// Returns the slow ranks that other ranks wait for, with their costs. The rest cost the job nothing.
std::vector<Slowness::Straggler> Slowness::Costly(std::vector<Straggler> found) const {
  std::vector<bool> named(timing_.ranks.size());
  for (const Straggler& s : found) named[s.rank] = true;
  std::map<uint32_t, std::map<uint32_t, int64_t>> waited;  // straggler -> communicator -> time that others lost
  struct Among {
    int64_t compared = 0, last = 0;
  };
  std::map<uint32_t, Among> among_others;  // straggler -> collectives with others, and those in which it came last
  for (const Meeting& meeting : timing_.meetings) {
    // Each named rank is judged on its own. The second slowest rank on a host is slow even though the slowest one is
    // there, too.
    int64_t others = INT64_MAX, measured = INT64_MAX;
    bool any = false;
    for (const Attendance& who : timing_.Of(meeting)) {
      const TimedOp& t = timing_.At(who);
      if (t.start_ns == 0) continue;
      any |= named[who.rank];
      if (named[who.rank]) continue;
      others = std::min(others, t.Duration());
      if (!paces_.ranks[who.rank].own_ns.empty()) measured = std::min(measured, t.Duration());
    }
    if (!any || others == INT64_MAX) continue;
    for (const Attendance& who : timing_.Of(meeting)) {
      const TimedOp& t = timing_.At(who);
      if (t.start_ns == 0 || !named[who.rank]) continue;
      if (others > t.Duration()) waited[who.rank][meeting.comm] += others - t.Duration();
      // A rank without any complete measured step may be equally slow.
      if (measured == INT64_MAX) continue;
      Among& among = among_others[who.rank];
      ++among.compared;
      among.last += measured - t.Duration() > 2 * noise_ns_[who.rank];
    }
  }
  std::vector<Straggler> kept, unseen;
  for (Straggler& s : found) {
    const RankPace& pace = paces_.ranks[s.rank];
    if (WaitersUnseen(s.rank)) unseen.push_back(s);
    const double steps = pace.own_ns.empty() ? 1 : static_cast<double>(pace.own_ns.size());
    int64_t most = 0, sum = 0;
    for (const auto& [comm, ns] : waited[s.rank]) {
      sum += ns;
      if (ns > most) {
        most = ns;
        s.comm = comm;
      }
    }
    s.cost_ns = std::min(s.excess_ns, static_cast<int64_t>(static_cast<double>(sum) / steps));
    // If the error of the times explains half of a cost, the cost is not certain. Such errors come from markers that
    // are read at intervals, and from a busy host that runs ranks one after the other.
    if (s.cost_ns <= 2 * s.uncertainty_ns) continue;
    // If own time is the part of a step that durations leave over, work parallel to operations distorts it. In that
    // case, there must be evidence that others wait for the rank.
    if (pace.durations_only && s.cost_ns * 2 < s.excess_ns) continue;
    // A rank with slow work arrives last again and again. A few long waits do not have this effect, although they may
    // occur in each of a few steps. With enough steps, arriving last once per step is evidence on its own. A straggler
    // must arrive last in at least half of its slow steps, by more than the error of its times. Work that overlaps the
    // rank's own waiting also looks like a long step, but it delays no other rank.
    const bool few = pace.own_ns.size() < kFewSteps;
    const Among& among = among_others[s.rank];
    const auto slow_steps = std::count_if(pace.first_op.begin(), pace.first_op.end(),
                                          [&](uint32_t op) { return static_cast<int64_t>(op) >= s.since_op; });
    const bool seldom = few ? among.last * 5 < among.compared : among.last * 2 < slow_steps;
    if (among.compared >= kFewMeetings && seldom) continue;
    kept.push_back(s);
  }
  AddUnseen(unseen, &kept);
  return kept;
}

// Returns whether a member of one of its groups left no data: that member may have waited for the rank.
bool Slowness::WaitersUnseen(uint32_t rank) const {
  const auto& memberships = timing_.model.bundle.ranks[rank].memberships;
  return std::any_of(memberships.begin(), memberships.end(), [&](const Membership& ms) {
    const auto& members = timing_.model.comms[ms.comm].members;
    return std::any_of(members.begin(), members.end(), [&](const Member& m) {
      return m.rank_index < 0 || timing_.ranks[static_cast<size_t>(m.rank_index)].ops.empty();
    });
  });
}

// Adds a rank of `unseen` if it is about as slow as a rank of `kept` on the same host and in the same small group. The
// ranks that wait for the added one left no data.
void Slowness::AddUnseen(const std::vector<Straggler>& unseen, std::vector<Straggler>* kept) const {
  constexpr int64_t kAlike = 4;  // GPUs on one hot host may differ by up to this factor
  const size_t seen = kept->size();
  const auto& ranks = timing_.model.bundle.ranks;
  for (const Straggler& s : unseen) {
    const auto& own = ranks[s.rank].memberships;
    for (size_t k = 0; k < seen; ++k) {
      const Straggler& other = (*kept)[k];
      if (other.rank == s.rank) break;
      const bool as_slow = std::min(s.excess_ns, other.excess_ns) * kAlike >= std::max(s.excess_ns, other.excess_ns);
      const bool pair =
          as_slow && ranks[other.rank].host == ranks[s.rank].host &&
          std::any_of(own.begin(), own.end(), [&](const Membership& ms) {
            const auto& members = timing_.model.comms[ms.comm].members;
            return members.size() < kLeastGroup && std::any_of(members.begin(), members.end(), [&](const Member& m) {
                     return m.rank_index == static_cast<int32_t>(other.rank);
                   });
          });
      if (!pair) continue;
      if (std::any_of(kept->begin(), kept->end(), [&](const Straggler& known) { return known.rank == s.rank; })) break;
      Straggler added = s;
      added.cost_ns = std::min(s.excess_ns, other.cost_ns);
      added.comm = other.comm;
      kept->push_back(added);
      break;
    }
  }
}

std::vector<Slowness::Straggler> Slowness::FindStragglers() const {
  std::vector<Straggler> found;
  for (const auto& role : paces_.roles) FindSlowInRole(role, &found);
  FindLongPlaces(&found);
  FindSlowLately(&found);
  DropDoubtful(&found);
  std::vector<Straggler> kept = Costly(std::move(found));
  FindLateByHabit(&kept);
  // Drops all ranks if even the largest cost is too small to report, and ranks for which others hardly wait.
  const int64_t most =
      kept.empty() ? 0 : std::max_element(kept.begin(), kept.end(), [](const Straggler& a, const Straggler& b) {
                           return a.cost_ns < b.cost_ns;
                         })->cost_ns;
  std::erase_if(kept, [&](const Straggler& s) {
    const auto step = static_cast<double>(paces_.ranks[s.rank].step_ns);
    return static_cast<double>(most) < kWorthSaying * step || (s.cost_ns * 8 < most && s.cost_ns * 4 < s.excess_ns);
  });
  return kept;
}

}  // namespace lockstep
