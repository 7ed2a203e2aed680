// Ranks whose own work takes longer than that of ranks with the same role: by steps, by places in these, or by how they
// come to operations.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/engine/slow/places.h"
#include "analyzer/engine/slow/slow.h"
#include "analyzer/util/numbers.h"

namespace lockstep {
namespace {

// If fewer steps than this were measured, require this much of its own work.
constexpr size_t kFewSteps = 3;
constexpr double kWorthOfFew = 0.15, kWorthOfVeryFew = 0.25;
// What chance does to one of all ranks less often than this does not count as chance.
constexpr double kByChance = 1e-3;
// In a group of two or three, the first to arrive may be as slow as the rest.
constexpr size_t kLeastGroup = 4;
// Groups of this size leave their operations together, most likely inside one host.
constexpr size_t kMostBeside = 8;
// Work and waiting are equal if they differ by less than this share of the work in question.
constexpr int64_t kClosely = 10;
// Own times of a few steps that vary by more than this share of their excess are chance.
constexpr double kChanceDiffers = 0.2;
// Steps of the fastest ranks that are compared one by one.
constexpr size_t kManySteps = 16;
// The excess of a rank's steps must be this many times their variation.
constexpr double kClear = 6;
// The standard deviation, relative to the median deviation, of what chance makes.
constexpr double kDeviation = 1.4826;

// How far chance alone moves the median of values that vary like these: their standard error, from the median
// deviation, so that one step hit by something else does not count.
double ChanceOf(const std::vector<int64_t>& values) {
  const int64_t middle = Median(values);
  std::vector<int64_t> deviations;
  deviations.reserve(values.size());
  for (const int64_t value : values) deviations.push_back(std::abs(value - middle));
  return kDeviation * static_cast<double>(Median(std::move(deviations))) /
         std::sqrt(static_cast<double>(values.size()));
}

// Whether the ranks of a role that take as long as `value` are clearly separate from the rest. There must be a gap
// below it, twice as wide as the spread of the values under the gap, which are half of them or more. Two groups have
// such a gap; a role that merely spreads has not. In a role of three ranks, two may be slow.
bool StandsClear(std::vector<int64_t> values, int64_t value) {
  const size_t half = values.size() <= 3 ? 1 : (values.size() + 1) / 2;
  std::sort(values.begin(), values.end());
  for (size_t i = half; i < values.size() && values[i] <= value; ++i) {
    if (values[i] - values[i - 1] >= 2 * (values[i - 1] - values[0])) return true;
  }
  return false;
}

}  // namespace

// The durations of a few steps are weak evidence for a rank's own work: waits in operations without a duration remain
// in it.
bool Slowness::FewSteps(uint32_t rank) const {
  return timing_.model.bundle.ranks[rank].time_source == TimeSource::kFrameworkDurations &&
         paces_.ranks[rank].own_ns.size() < kFewSteps;
}

bool Slowness::ByHabit(uint32_t rank) const {
  return !habits_.empty() && habits_[rank].comm != kNoIndex &&
         timing_.model.comms[habits_[rank].comm].members.size() >= kLeastGroup && FewSteps(rank);
}

// Adds to the ranks that their steps already show as slow.
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

// If a rank waits in some kind of operation for as long as its supposed lateness, the lateness comes from there.
// `usual` is what the faster ranks of its role spend in each class of operation.
std::vector<std::pair<uint32_t, int64_t>> Slowness::WaitsItself(const RankPace& pace,
                                                                const std::map<uint32_t, int64_t>& usual,
                                                                int64_t excess) const {
  std::vector<std::pair<uint32_t, int64_t>> waits;
  for (const auto& [klass, ns] : pace.in_operations) {
    const auto it = usual.find(klass);
    if (it != usual.end() && ns - it->second > excess / 2) waits.push_back({klass, ns - it->second});
  }
  return waits;
}

// Members of a small group leave each of its operations together, so own work plus waiting is the same for all of them.
// If the waiting that makes a rank doubtful equals the excess of the slowest member's work, the rank waits for that
// member, and its own work is longer as well. If the steps of either rank are known, they must show that this lasts:
// its work, or its waiting, is equally long in each step. An unseen wait would be part of its own work, so every kind
// of operation must have been measured, and no other rank of its pipeline may be slow.
const Slowness::Straggler* Slowness::SlowBesideASlower(const Straggler& s, const std::vector<Straggler>& found,
                                                       const std::map<uint32_t, size_t>& certain_in) const {
  const Model& model = timing_.model;
  const Rank& rank = model.bundle.ranks[s.rank];
  if (s.waits_in == kNoIndex || s.slowdown < 1 + kWorthOfFew) return nullptr;
  const RankPace& pace = paces_.ranks[s.rank];
  const auto& inside = pace.in_operations;
  std::vector<bool> used(rank.memberships.size());
  for (const TimedOp& t : timing_.ranks[s.rank].ops) {
    if (t.op >= pace.first_op.back()) used[rank.ops[t.op].membership] = true;
  }
  const Straggler* slower = nullptr;
  for (size_t i = 0; i < rank.memberships.size(); ++i) {
    const uint32_t comm = rank.memberships[i].comm, klass = paces_.class_of_comm[comm];
    if (used[i] && std::none_of(inside.begin(), inside.end(), [&](const auto& known) { return known.first == klass; }))
      return nullptr;
    const auto& members = model.comms[comm].members;
    if (klass != s.waits_in) {
      const auto it = certain_in.find(comm);
      if (model.comms[comm].used_for_p2p && it != certain_in.end() && it->second > 0) return nullptr;
      continue;
    }
    if (members.size() > kMostBeside || members.size() * 2 > model.bundle.ranks.size()) continue;
    for (const Straggler& other : found) {
      if (other.doubtful || (other.brief && s.brief) || (slower != nullptr && other.excess_ns <= slower->excess_ns))
        continue;
      if (std::any_of(members.begin(), members.end(),
                      [&](const Member& m) { return m.rank_index == static_cast<int32_t>(other.rank); }))
        slower = &other;
    }
  }
  const bool all =
      slower != nullptr && std::llabs(s.excess_ns + s.waits_ns - slower->excess_ns) * kClosely <= s.excess_ns;
  return all ? slower : nullptr;
}

std::map<uint32_t, int64_t> Slowness::UsuallyInside(const std::vector<uint32_t>& role) const {
  std::map<uint32_t, std::vector<int64_t>> inside;
  for (uint32_t r : role) {
    for (const auto& [klass, ns] : paces_.ranks[r].in_operations) inside[klass].push_back(ns);
  }
  std::map<uint32_t, int64_t> usual;
  for (auto& [klass, list] : inside) usual[klass] = Quantile(&list, 0.25);
  return usual;
}

void Slowness::FindLongPlaces(std::vector<Straggler>* found) const {
  const std::vector<PlacePace> paces = ComparePlaces(timing_, paces_, noise_ns_);
  for (uint32_t r = 0; r < paces.size(); ++r) {
    const PlacePace& pace = paces[r];
    if (!paces_.ranks[r].own_ns.empty() || pace.places == 0 || pace.by_chance > kByChance) continue;
    // The median shows by how much; three of four show that it is so throughout.
    if (pace.ratio < 1 + kWorthOfFew || pace.least_ratio < 1 + kWorthOfFew / 2) continue;
    Straggler s;
    s.rank = r;
    s.slowdown = pace.ratio;
    s.excess_ns = std::min(pace.own_ns - pace.others_ns,
                           static_cast<int64_t>((pace.ratio - 1) * static_cast<double>(pace.others_ns)));
    if (static_cast<double>(s.excess_ns) < kWorthSaying * static_cast<double>(paces_.ranks[r].step_ns)) continue;
    s.own_ns = pace.others_ns + s.excess_ns;
    s.uncertainty_ns = static_cast<int64_t>(2.0 * static_cast<double>(noise_ns_[r]) * std::sqrt(pace.places));
    found->push_back(s);
  }
}

void Slowness::FindSlowInRole(const std::vector<uint32_t>& whole_role, std::vector<Straggler>* found) const {
  std::vector<uint32_t> role;
  for (uint32_t r : whole_role) {
    if (!paces_.ranks[r].own_ns.empty() && paces_.ranks[r].step_ns > 0) role.push_back(r);
  }
  std::vector<int64_t> usual, steps_of_role;
  for (uint32_t r : role) steps_of_role.push_back(paces_.ranks[r].step_ns);
  const int64_t role_step = Median(std::move(steps_of_role));
  // A step's own time for comparison. Medians of single places are useless if each is below the clock's precision. If
  // the own time is what durations leave of a step, the step is the same for all ranks.
  const auto usual_of = [&](uint32_t r) {
    const RankPace& pace = paces_.ranks[r];
    if (pace.durations_only) {
      // With only two steps, the shorter one is the usual one: what hits a rank once is not usual.
      const int64_t own = pace.own_ns.size() == 2 ? std::min(pace.own_ns[0], pace.own_ns[1]) : pace.usual_own_ns;
      return own - pace.step_ns + role_step;
    }
    const bool coarse = noise_ns_[r] * 2 * std::max<int64_t>(pace.places, 1) > pace.usual_own_ns;
    return coarse && pace.own_ns.size() >= kEnoughSteps ? Median(pace.own_ns) : pace.usual_own_ns;
  };
  for (uint32_t r : role) usual.push_back(usual_of(r));
  if (usual.size() < 2) return;
  // The faster half shows what the work takes; of two, the faster one.
  std::vector<int64_t> copy = usual;
  const int64_t normal = Quantile(&copy, 0.25);
  // Durations that exceed the step belong to operations that overlap: what they leave of it is not own work.
  if (normal <= 0 && paces_.ranks[role.front()].durations_only) return;
  // How much ranks of the same role that are not slow vary.
  std::vector<int64_t> spread;
  spread.reserve(usual.size());
  for (int64_t u : usual) spread.push_back(u <= normal ? normal - u : u - normal);
  const int64_t stray = Quantile(&spread, 0.25);
  // How much the steps of one rank vary. All ranks of the role show it: a few steps of one do not.
  std::vector<int64_t> middles, strays;
  for (uint32_t r : role) {
    const auto& own = paces_.ranks[r].own_ns;
    middles.push_back(Median(own));
    for (int64_t value : own) strays.push_back(std::abs(value - middles.back()));
  }
  const int64_t middle = Quantile(&middles, 0.25);
  const double varies = kDeviation * static_cast<double>(Median(std::move(strays)));
  // What the fastest ranks of the role do in each of their last steps.
  std::vector<int64_t> fast_steps;
  for (size_t i = 0; i < kManySteps; ++i) {
    std::vector<int64_t> here;
    for (size_t k = 0; k < role.size(); ++k) {
      const RankPace& pace = paces_.ranks[role[k]];
      if (usual[k] <= normal && i < pace.own_ns.size()) here.push_back(pace.own_ns[i] - pace.step_ns);
    }
    if (here.empty()) break;
    fast_steps.push_back(Median(std::move(here)));
  }
  const std::map<uint32_t, int64_t> inside = UsuallyInside(role);
  for (uint32_t r : role) {
    const RankPace& pace = paces_.ranks[r];
    if (usual_of(r) <= normal) continue;
    Straggler s;
    s.rank = r;
    s.excess_ns = usual_of(r) - normal;
    s.own_ns = normal + s.excess_ns;
    const size_t steps = std::max<size_t>(pace.own_ns.size(), 1);
    // Errors of single times are symmetric: their sum grows with the square root of their number.
    s.uncertainty_ns = static_cast<int64_t>(2.0 * static_cast<double>(noise_ns_[r]) *
                                            std::sqrt(pace.operations / 3.0 / static_cast<double>(steps))) +
                       3 * stray;
    const auto base = static_cast<double>(std::max<int64_t>(normal, pace.step_ns / 20));
    s.slowdown = 1 + static_cast<double>(s.excess_ns) / base;
    if (s.excess_ns <= s.uncertainty_ns || s.slowdown < 1 + kWorthOwn) continue;
    if (static_cast<double>(s.excess_ns) < kWorthSaying * static_cast<double>(pace.step_ns)) continue;
    // A few steps do not average out occasional delays. Fewer than many are evidence only for a rank that is clearly
    // separate from the others.
    if (pace.durations_only && pace.own_ns.size() < kFewSteps &&
        (s.slowdown < 1 + kWorthOfVeryFew || !StandsClear(usual, usual_of(r))))
      continue;
    if (!pace.durations_only && pace.own_ns.size() < kManySteps && s.slowdown < 1 + kWorthOfFew &&
        !StandsClear(usual, usual_of(r)))
      continue;
    if (pace.durations_only) {
      const auto waits = WaitsItself(pace, inside, s.excess_ns);
      s.doubtful = !waits.empty();
      if (waits.size() == 1) std::tie(s.waits_in, s.waits_ns) = waits[0];
    }
    s.brief = pace.durations_only && pace.own_ns.size() < 2;
    // A slow rank waits for none, so it spends equally long inside operations in every step. A rank that waits for
    // others in some of a few steps, but not in the rest, met an occasional delay.
    if (pace.durations_only && pace.own_ns.size() < kEnoughSteps && !pace.own_ns.empty()) {
      const auto [least, most] = std::minmax_element(pace.own_ns.begin(), pace.own_ns.end());
      if (static_cast<double>(*most - *least) > kChanceDiffers * static_cast<double>(s.excess_ns)) continue;
    }
    // What is longer at single places must make whole steps longer, and by more than chance does.
    if (!pace.durations_only) {
      // Work that may have been waiting makes no rank slow.
      if ((pace.least_own_ns - middle) * 2 < s.excess_ns) continue;
      const auto longer = static_cast<double>(std::min(s.excess_ns, Median(pace.own_ns) - middle));
      if (longer < kClear * varies / std::sqrt(static_cast<double>(std::max<size_t>(steps, 2) - 1))) continue;
    }
    // The members of a group are slow in step with each other, and so are those that wait for them. So where only
    // durations are known, their variation says nothing about chance, but the variation of the difference from step to
    // step does.
    if (pace.durations_only && pace.own_ns.size() >= kEnoughSteps) {
      std::vector<int64_t> longer;
      for (size_t i = 0; i < std::min(pace.own_ns.size(), fast_steps.size()); ++i)
        longer.push_back(pace.own_ns[i] - pace.step_ns - fast_steps[i]);
      if (static_cast<double>(s.excess_ns) < kClear * ChanceOf(longer)) continue;
    }
    // In how many of its steps it is slow, and since when.
    if (!pace.own_ns.empty()) {
      size_t slow = 0, run = 0;
      bool running = true;
      for (int64_t own : pace.own_ns) {
        const bool here = own - (pace.durations_only ? pace.step_ns - role_step : 0) - normal > s.excess_ns / 2;
        slow += here;
        running &= here;
        run += running;
      }
      if (slow * 10 < steps * 7) continue;
      if (run + 2 <= steps && slow == run && run >= 3 &&
          std::all_of(pace.own_ns.begin() + static_cast<ptrdiff_t>(run), pace.own_ns.end(),
                      [&](int64_t own) { return own - normal < s.excess_ns / 4; })) {
        s.since_op = pace.first_op[run - 1];
      }
    }
    found->push_back(s);
  }
}

void Slowness::FindSlowLately(std::vector<Straggler>* found) const {
  std::vector<bool> slow_all_along(timing_.ranks.size());
  for (const Straggler& s : *found) slow_all_along[s.rank] = true;
  // A rank that became slow recently: its last steps compared with the earlier ones, if the record as a whole is still
  // usual.
  for (const auto& role : paces_.roles) {
    for (uint32_t r : role) {
      const RankPace& pace = paces_.ranks[r];
      const size_t steps = pace.own_ns.size();
      if (steps < 8 || pace.by_place.empty() || slow_all_along[r]) continue;
      std::vector<int64_t> sorted = pace.own_ns;
      const int64_t normal = Quantile(&sorted, 0.25);
      size_t run = 0;
      const int64_t bar =
          normal + std::max(static_cast<int64_t>(kWorthOwn * 2 * static_cast<double>(normal)), pace.step_ns / 25);
      while (run < steps && pace.own_ns[run] > bar) ++run;
      if (run < 4 || run * 2 > steps + 1) continue;
      const auto later = std::count_if(pace.own_ns.begin() + static_cast<ptrdiff_t>(run), pace.own_ns.end(),
                                       [&](int64_t own) { return own > bar; });
      if (later > 0) continue;
      Straggler s;
      s.rank = r;
      s.excess_ns = OwnOver(pace, 0, run) - OwnOver(pace, run, steps);
      if (s.excess_ns <= bar - normal) continue;
      s.uncertainty_ns = static_cast<int64_t>(2.0 * static_cast<double>(noise_ns_[r]) *
                                              std::sqrt(pace.operations / 3.0 / static_cast<double>(run)));
      s.slowdown =
          1 + static_cast<double>(s.excess_ns) / static_cast<double>(std::max<int64_t>(normal, pace.step_ns / 20));
      s.own_ns = normal + s.excess_ns;
      s.since_op = pace.first_op[run - 1];
      // If many ranks of a role became slower since then, the work changed.
      constexpr size_t kLookedAt = 64;
      size_t also = 0, looked = 0;
      for (size_t k = 0; k < role.size(); k += 1 + role.size() / kLookedAt) {
        const RankPace& theirs = paces_.ranks[role[k]];
        ++looked;
        if (theirs.own_ns.size() <= run + 1 || theirs.by_place.empty()) continue;
        also += OwnOver(theirs, 0, run) - OwnOver(theirs, run, theirs.own_ns.size()) > s.excess_ns / 2;
      }
      if (also * 2 > looked || s.excess_ns <= s.uncertainty_ns) continue;
      found->push_back(s);
    }
  }
}

// A doubtful rank counts if most of its host, or of its group if hosts are unknown, is slow without doubt. In a group
// too small for that, it counts if the slower rank that it waits for explains all of its waiting. A single step is
// chance, except beside a member of its group that is slow in all of them.
Slowness::Beside Slowness::DropDoubtful(std::vector<Straggler>* found) const {
  std::map<std::string, int> certain, present;
  for (const Straggler& s : *found) certain[timing_.model.bundle.ranks[s.rank].host] += !s.doubtful;
  for (const Rank& rank : timing_.model.bundle.ranks) ++present[rank.host];
  std::map<uint32_t, size_t> certain_in, lasting_in;  // communicators
  for (const Straggler& s : *found) {
    for (const Membership& m : timing_.model.bundle.ranks[s.rank].memberships)
      certain_in[m.comm] += !s.doubtful, lasting_in[m.comm] += !s.doubtful && !s.brief;
  }
  Beside beside;
  for (const Straggler& s : *found) {
    const Straggler* slower = s.doubtful ? SlowBesideASlower(s, *found, certain_in) : nullptr;
    if (slower == nullptr) continue;
    beside.waits_in[s.rank] = s.waits_in;
    beside.accounted.insert(slower->rank);
    if (s.brief) continue;
    for (const Membership& m : timing_.model.bundle.ranks[s.rank].memberships)
      lasting_in[m.comm] += paces_.class_of_comm[m.comm] == s.waits_in;
  }
  const size_t bundle_size = timing_.model.bundle.ranks.size();
  std::erase_if(*found, [&](const Straggler& s) {
    if (!s.doubtful && !s.brief) return false;
    const Rank& rank = timing_.model.bundle.ranks[s.rank];
    if (!rank.host.empty()) return certain[rank.host] * 2 < present[rank.host];
    if (beside.waits_in.contains(s.rank)) return false;
    return std::none_of(rank.memberships.begin(), rank.memberships.end(), [&](const Membership& m) {
      const size_t size = timing_.model.comms[m.comm].members.size();
      return s.doubtful ? size >= 4 && certain_in[m.comm] * 2 >= size : size < bundle_size && lasting_in[m.comm] > 0;
    });
  });
  return beside;
}

// What it costs the job counts only if others wait for it.
std::vector<Slowness::Straggler> Slowness::Costly(std::vector<Straggler> found, const Beside& beside) const {
  std::vector<bool> named(timing_.ranks.size());
  for (const Straggler& s : found) named[s.rank] = true;
  // A rank that waits in its group for a slower one is among those that wait there.
  const auto counts = [&](uint32_t rank, const Meeting& meeting) {
    const auto it = beside.waits_in.find(rank);
    return named[rank] && (it == beside.waits_in.end() || it->second != paces_.class_of_comm[meeting.comm]);
  };
  std::map<uint32_t, std::map<uint32_t, int64_t>> waited;  // straggler -> communicator -> time that others lost
  struct Among {
    int64_t compared = 0, last = 0;
  };
  std::map<uint32_t, Among> among_others;  // straggler -> collectives with others, and those in which it came last
  for (const Meeting& meeting : timing_.meetings) {
    // Each named rank counts separately: the second slowest of a host is no less slow because the slowest is there.
    int64_t others = INT64_MAX, measured = INT64_MAX;
    bool any = false;
    for (uint32_t a = 0; a < meeting.count; ++a) {
      const Attendance& who = timing_.attendance[meeting.first + a];
      const TimedOp& t = timing_.At(who);
      if (t.start_ns == 0) continue;
      any |= named[who.rank];
      if (counts(who.rank, meeting)) continue;
      others = std::min(others, t.Duration());
      if (!paces_.ranks[who.rank].own_ns.empty()) measured = std::min(measured, t.Duration());
    }
    if (!any || others == INT64_MAX) continue;
    for (uint32_t a = 0; a < meeting.count; ++a) {
      const Attendance& who = timing_.attendance[meeting.first + a];
      const TimedOp& t = timing_.At(who);
      if (t.start_ns == 0 || !counts(who.rank, meeting)) continue;
      if (others > t.Duration()) waited[who.rank][meeting.comm] += others - t.Duration();
      // A rank without any whole known step may be equally slow.
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
    // A cost of which the precision of the times explains half is not certain: marks that are read at intervals, ranks
    // that a busy host runs one after the other.
    if (s.cost_ns <= 2 * s.uncertainty_ns) continue;
    // If own time is only what durations leave of a step, work beside operations blurs it: then others must be seen
    // waiting for it.
    if (pace.durations_only && s.cost_ns * 2 < s.excess_ns && !beside.accounted.contains(s.rank)) continue;
    // Slow work makes its rank come last again and again. A few long waits (a communicator created again, an occasional
    // neighbour on the host) do not, although each of a few steps may have met one. With enough steps, coming last once
    // per step is evidence by itself. A straggler must arrive last in at least half of its slow steps, by more than the
    // error of its times. Work that overlaps the rank's own waiting looks like a long step too, but it delays no other
    // rank.
    const bool few = pace.durations_only || pace.own_ns.size() < kEnoughSteps;
    const Among& among = among_others[s.rank];
    // All its steps, or those since it became slow.
    const auto slow_steps = std::count_if(pace.first_op.begin(), pace.first_op.end(),
                                          [&](uint32_t op) { return static_cast<int64_t>(op) >= s.since_op; });
    const bool seldom = few ? among.last * 5 < among.compared : among.last * 2 < slow_steps;
    if (among.compared >= kFewMeetings && seldom) continue;
    kept.push_back(s);
  }
  AddUnseen(unseen, &kept);
  return kept;
}

// Whether a member of one of its groups left no data: that member may have been the one waiting for the rank.
bool Slowness::WaitersUnseen(uint32_t rank) const {
  const auto& memberships = timing_.model.bundle.ranks[rank].memberships;
  return std::any_of(memberships.begin(), memberships.end(), [&](const Membership& ms) {
    const auto& members = timing_.model.comms[ms.comm].members;
    return std::any_of(members.begin(), members.end(), [&](const Member& m) {
      return m.rank_index < 0 || timing_.ranks[static_cast<size_t>(m.rank_index)].ops.empty();
    });
  });
}

// Both ranks of a pair are equally slow: others are seen waiting for one, and those that wait for the other left no
// data.
void Slowness::AddUnseen(const std::vector<Straggler>& unseen, std::vector<Straggler>* kept) const {
  constexpr int64_t kAlike = 4;  // GPUs of one hot host differ by as much
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
      kept->push_back(s);
      kept->back().cost_ns = std::min(s.excess_ns, other.cost_ns);
      kept->back().comm = other.comm;
      break;
    }
  }
}

std::vector<Slowness::Straggler> Slowness::FindStragglers() const {
  std::vector<Straggler> found;
  for (const auto& role : paces_.roles) FindSlowInRole(role, &found);
  FindLongPlaces(&found);
  FindSlowLately(&found);
  const Beside beside = DropDoubtful(&found);
  std::vector<Straggler> kept = Costly(std::move(found), beside);
  FindLateByHabit(&kept);
  // A slow rank that none waits for costs nothing.
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
