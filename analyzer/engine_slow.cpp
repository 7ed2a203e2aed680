#include "analyzer/engine_slow.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/engine_places.h"

namespace lockstep {
namespace {

// A rank costs the job something worth saying from this share of a step on, and this much of its own work.
constexpr double kWorthSaying = 0.02, kWorthOwn = 0.04;
// Where fewer steps than that were measured, this much of its own work.
constexpr size_t kFewSteps = 3;
constexpr double kWorthOfFew = 0.15;
// From what confidence on a rank is late by its own work, and a slow link is one.
constexpr double kSure = 0.8, kPointsSomewhere = 0.6;
// What chance does to one of all ranks more seldom than that is not chance.
constexpr double kByChance = 1e-3;
// Of two or three the first to come may well be as slow as the rest.
constexpr size_t kLeastGroup = 4;
// Work and waiting that come to the same do so within this part of the work in question.
constexpr int64_t kClosely = 10;
// Own times of few steps that differ by more than this share of what they are longer by are chance.
constexpr double kChanceDiffers = 0.2;
// From so many steps on chance evens out; of fewer, what a rank's steps are longer by than its siblings' stands so many times clear of how
// much it differs from step to step.
constexpr size_t kManySteps = 16;
constexpr double kClear = 6;
// From so many collectives with others on, how often a rank came last tells chance from habit.
constexpr int64_t kFewMeetings = 8;
constexpr int kMostArrivals = 64;
constexpr size_t kMostNoiseSamples = 512;

int64_t Median(std::vector<int64_t> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

int64_t Quantile(std::vector<int64_t>* values, double q) {
  if (values->empty()) return 0;
  const auto at = values->begin() + static_cast<ptrdiff_t>(q * static_cast<double>(values->size() - 1));
  std::nth_element(values->begin(), at, values->end());
  return *at;
}

// How far chance alone moves the middle of values that differ as these do (their standard error, by the median deviation: one step that was
// hit by something else does not count).
double ChanceOf(const std::vector<int64_t>& values) {
  const int64_t middle = Median(values);
  std::vector<int64_t> deviations;
  for (const int64_t value : values) deviations.push_back(std::abs(value - middle));
  return 1.4826 * static_cast<double>(Median(std::move(deviations))) / std::sqrt(static_cast<double>(values.size()));
}

// Durations of few steps tell a rank's own work badly: what it waits for in operations without any is in what they leave.
bool OfFewSteps(const Timing& timing, const RankPace& pace, uint32_t rank) {
  return timing.model.bundle.ranks[rank].time_source == TimeSource::kFrameworkDurations && pace.own_ns.size() < kFewSteps;
}

std::string Percent(double share) { return absl::StrFormat("%.0f %%", share * 100); }

std::string Milliseconds(int64_t ns) {
  const double ms = static_cast<double>(ns) / 1e6;
  return ms >= 1000 ? absl::StrFormat("%.1f s", ms / 1000) : ms >= 10 ? absl::StrFormat("%.0f ms", ms) : absl::StrFormat("%.2g ms", ms);
}

}  // namespace

Slowness::Slowness(const Timing& timing, const Clocks& clocks)
    : timing_(timing), clocks_(clocks), paces_(timing), noise_ns_(timing.ranks.size()), lateness_(timing.ranks.size()),
      later_by_comm_(timing.ranks.size()) {
  MeasureNoise();
  CountArrivals();
  for (uint32_t r = 0; r < timing.ranks.size() && habits_.empty(); ++r) {
    if (paces_.ranks[r].role != kNoIndex && OfFewSteps(timing, paces_.ranks[r], r)) habits_ = FindHabits(timing, paces_);
  }
}

bool Slowness::ByHabit(uint32_t rank) const {
  return !habits_.empty() && habits_[rank].comm != kNoIndex && timing_.model.comms[habits_[rank].comm].members.size() >= kLeastGroup &&
         OfFewSteps(timing_, paces_.ranks[rank], rank);
}

// Adds to those who are told by their steps.
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
    s.uncertainty_ns = static_cast<int64_t>(static_cast<double>(habit.usual_ns + 2 * noise_ns_[r]) * std::sqrt(habit.meetings));
    s.slowdown = 0;
    s.comm = habit.comm;
    found->push_back(s);
  }
}

// Members leave a collective at about one moment. By how much a rank's ends stray from that moment, where its clock is the others'
// or aligned with them, bounds what its times are worth, whatever gave them.
void Slowness::MeasureNoise() {
  std::vector<std::vector<int64_t>> strays(timing_.ranks.size());
  std::vector<int64_t> ends;
  const size_t step = std::max<size_t>(1, timing_.attendance.size() / (kMostNoiseSamples * std::max<size_t>(1, timing_.ranks.size())));
  for (size_t i = 0; i < timing_.meetings.size(); i += step) {
    const Meeting& meeting = timing_.meetings[i];
    if (meeting.count < 2) continue;
    ends.clear();
    for (uint32_t a = 0; a < meeting.count; ++a) {
      const Attendance& who = timing_.attendance[meeting.first + a];
      if (clocks_.Aligned(who.rank)) ends.push_back(clocks_.ToJob(who.rank, timing_.At(who).end_ns));
    }
    if (ends.size() < 2) continue;
    const int64_t moment = Median(ends);
    size_t e = 0;
    for (uint32_t a = 0; a < meeting.count; ++a) {
      const Attendance& who = timing_.attendance[meeting.first + a];
      if (clocks_.Aligned(who.rank)) strays[who.rank].push_back(std::llabs(ends[e++] - moment));
    }
  }
  for (size_t r = 0; r < noise_ns_.size(); ++r) {
    const Rank& rank = timing_.model.bundle.ranks[r];
    noise_ns_[r] = timing_.ranks[r].late_by_ns;
    if (rank.time_source == TimeSource::kFrameworkDurations) {
      noise_ns_[r] = 10'000;   // of what counts here, the durations
    } else if (strays[r].size() >= 8) {
      const int64_t seen = std::max<int64_t>(2 * Quantile(&strays[r], 0.9), 1000);
      const bool told = rank.time_source != TimeSource::kUnknown || rank.time_uncertainty_ns > 0;
      noise_ns_[r] = told ? std::max(seen, noise_ns_[r]) : std::min(seen, noise_ns_[r]);
    }
  }
}

void Slowness::CountArrivals() {
  struct Late {
    uint32_t rank, comm;
    int64_t by_ns;
  };
  std::vector<Late> lates;
  for (const Meeting& meeting : timing_.meetings) {
    const size_t size = timing_.model.comms[meeting.comm].members.size();
    int64_t least = INT64_MAX, second = INT64_MAX;
    uint32_t last = kNoIndex;
    size_t measured = 0;
    for (uint32_t a = 0; a < meeting.count; ++a) {
      const Attendance& who = timing_.attendance[meeting.first + a];
      const TimedOp& t = timing_.At(who);
      if (t.start_ns == 0) continue;
      ++measured;
      // Everybody leaves together: who has been in it for the shortest time came last. No clock is compared with another.
      const int64_t inside = t.Duration();
      if (inside < least) {
        second = least;
        least = inside;
        last = who.rank;
      } else {
        second = std::min(second, inside);
      }
    }
    if (measured < 2 || measured * 10 < size * 5) continue;
    for (uint32_t a = 0; a < meeting.count; ++a) {
      const Attendance& who = timing_.attendance[meeting.first + a];
      if (timing_.At(who).start_ns == 0) continue;
      ++lateness_[who.rank].compared;
      lateness_[who.rank].by_chance += 1.0 / static_cast<double>(measured);
    }
    const int64_t by = second - least;
    if (by <= 2 * noise_ns_[last]) continue;
    ++lateness_[last].last;
    lateness_[last].later_ns += by;
    lateness_[last].much += by > paces_.step_ns / 50;
    lates.push_back({last, meeting.comm, by});
  }
  std::sort(lates.begin(), lates.end(), [](const Late& a, const Late& b) { return std::tie(a.rank, a.comm) < std::tie(b.rank, b.comm); });
  for (size_t i = 0; i < lates.size();) {
    size_t k = i;
    int64_t sum = 0;
    for (; k < lates.size() && lates[k].rank == lates[i].rank && lates[k].comm == lates[i].comm; ++k) sum += lates[k].by_ns;
    later_by_comm_[lates[i].rank].push_back({lates[i].comm, sum});
    i = k;
  }
}

// A rank that waits in some kind of operation for as long as it is said to be late has its lateness from there. `usual` is what the
// faster of its role spend in each class of operation.
std::vector<std::pair<uint32_t, int64_t>> Slowness::WaitsItself(const RankPace& pace, const std::map<uint32_t, int64_t>& usual, int64_t excess) const {
  std::vector<std::pair<uint32_t, int64_t>> waits;
  for (const auto& [klass, ns] : pace.in_operations) {
    const auto it = usual.find(klass);
    if (it != usual.end() && ns - it->second > excess / 2) waits.push_back({klass, ns - it->second});
  }
  return waits;
}

// Members of a small group leave each of its operations together, so that own work and waiting in them come to the same for all: where the
// waiting that makes a rank doubtful is what the slowest member's work is longer by, it waits for that one, and its own work is longer as well.
// Of two whose steps are known, one is enough to say that it lasts: the other's work, or its waiting, is as long in each of its own.
// What it waits for unseen would be in its own work: every kind of operation must have been measured, and nobody else of its pipeline be slow.
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
    if (used[i] && std::none_of(inside.begin(), inside.end(), [&](const auto& known) { return known.first == klass; })) return nullptr;
    const auto& members = model.comms[comm].members;
    if (klass != s.waits_in) {
      const auto it = certain_in.find(comm);
      if (model.comms[comm].used_for_p2p && it != certain_in.end() && it->second > 0) return nullptr;
      continue;
    }
    if (members.size() >= kLeastGroup || members.size() * 2 > model.bundle.ranks.size()) continue;
    for (const Straggler& other : found) {
      if (other.doubtful || (other.brief && s.brief) || (slower != nullptr && other.excess_ns <= slower->excess_ns)) continue;
      if (std::any_of(members.begin(), members.end(), [&](const Member& m) { return m.rank_index == static_cast<int32_t>(other.rank); })) slower = &other;
    }
  }
  const bool all = slower != nullptr && std::llabs(s.excess_ns + s.waits_ns - slower->excess_ns) * kClosely <= s.excess_ns;
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
    // The middle one tells by how much, three of four that it is so throughout.
    if (pace.ratio < 1 + kWorthOfFew || pace.least_ratio < 1 + kWorthOfFew / 2) continue;
    Straggler s;
    s.rank = r;
    s.slowdown = pace.ratio;
    s.excess_ns = std::min(pace.own_ns - pace.others_ns, static_cast<int64_t>((pace.ratio - 1) * static_cast<double>(pace.others_ns)));
    if (static_cast<double>(s.excess_ns) < kWorthSaying * static_cast<double>(paces_.ranks[r].step_ns)) continue;
    s.own_ns = pace.others_ns + s.excess_ns;
    s.uncertainty_ns = static_cast<int64_t>(2.0 * static_cast<double>(noise_ns_[r]) * std::sqrt(pace.places));
    found->push_back(s);
  }
}

std::vector<Slowness::Straggler> Slowness::FindStragglers() {
  std::vector<Straggler> found;
  for (const auto& whole_role : paces_.roles) {
    std::vector<uint32_t> role;
    for (uint32_t r : whole_role) {
      if (!paces_.ranks[r].own_ns.empty() && paces_.ranks[r].step_ns > 0) role.push_back(r);
    }
    std::vector<int64_t> usual, steps_of_role;
    for (uint32_t r : role) steps_of_role.push_back(paces_.ranks[r].step_ns);
    const int64_t role_step = Median(std::move(steps_of_role));
    // A step's own time as it is compared. Medians of single places are worth nothing where each is below what the clock shows; and
    // where it is what durations leave of a step, the step is the same for all.
    const auto usual_of = [&](uint32_t r) {
      const RankPace& pace = paces_.ranks[r];
      if (pace.durations_only) return pace.usual_own_ns - pace.step_ns + role_step;
      const bool coarse = noise_ns_[r] * 2 * std::max<int64_t>(pace.places, 1) > pace.usual_own_ns;
      return coarse && pace.own_ns.size() >= kEnoughSteps ? Median(pace.own_ns) : pace.usual_own_ns;
    };
    for (uint32_t r : role) usual.push_back(usual_of(r));
    if (usual.size() < 2) continue;
    // The faster half is what the work takes; of two, the faster one.
    std::vector<int64_t> copy = usual;
    const int64_t normal = Quantile(&copy, 0.25);
    // Durations that come to more than the step are of operations that lie beside each other: what they leave of it is nobody's work.
    if (normal <= 0 && paces_.ranks[role.front()].durations_only) continue;
    // How much siblings that are not slow differ.
    std::vector<int64_t> spread;
    for (int64_t u : usual) spread.push_back(u <= normal ? normal - u : u - normal);
    const int64_t stray = Quantile(&spread, 0.25);
    // How much a rank's own steps differ. Of few steps the middle one may be any of them.
    std::vector<int64_t> ranges;
    for (uint32_t r : role) {
      const auto& own = paces_.ranks[r].own_ns;
      if (own.empty() || own.size() >= kEnoughSteps || paces_.ranks[r].durations_only) continue;
      const auto [least, most] = std::minmax_element(own.begin(), own.end());
      ranges.push_back(static_cast<int64_t>(static_cast<double>(*most - *least) / std::sqrt(own.size())));
    }
    const int64_t chance = Median(std::move(ranges));
    // What the fastest of the role do in each of their last steps.
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
      // Errors of single times part evenly to both sides: their sum grows as the root of how many there are.
      s.uncertainty_ns = static_cast<int64_t>(2.0 * static_cast<double>(noise_ns_[r]) * std::sqrt(pace.operations / 3.0 / static_cast<double>(steps))) + 3 * stray;
      if (pace.own_ns.size() < kEnoughSteps) s.uncertainty_ns += chance;
      const auto base = static_cast<double>(std::max<int64_t>(normal, pace.step_ns / 20));
      s.slowdown = 1 + static_cast<double>(s.excess_ns) / base;
      if (s.excess_ns <= s.uncertainty_ns || s.slowdown < 1 + kWorthOwn) continue;
      if (static_cast<double>(s.excess_ns) < kWorthSaying * static_cast<double>(pace.step_ns)) continue;
      // Few steps do not even out what hits a rank now and then.
      if (pace.durations_only && pace.own_ns.size() < kFewSteps && s.slowdown < 1 + kWorthOfFew) continue;
      if (pace.durations_only) {
        const auto waits = WaitsItself(pace, inside, s.excess_ns);
        s.doubtful = !waits.empty();
        if (waits.size() == 1) std::tie(s.waits_in, s.waits_ns) = waits[0];
      }
      s.brief = pace.durations_only && pace.own_ns.size() < 2;
      // Who is slow waits for nobody, so that it is inside operations for as long in every step. One that waits for others in some of
      // few steps and not in the rest met what comes now and then.
      if (pace.durations_only && pace.own_ns.size() < kEnoughSteps && !pace.own_ns.empty()) {
        const auto [least, most] = std::minmax_element(pace.own_ns.begin(), pace.own_ns.end());
        if (static_cast<double>(*most - *least) > kChanceDiffers * static_cast<double>(s.excess_ns)) continue;
      }
      // A group's members are slow in step with each other, and so are those that wait for them: how they differ among themselves says
      // nothing of chance. How the difference differs from step to step does.
      if (pace.durations_only && pace.own_ns.size() >= kEnoughSteps && pace.own_ns.size() < kManySteps) {
        std::vector<int64_t> longer;
        for (size_t i = 0; i < std::min(pace.own_ns.size(), fast_steps.size()); ++i) longer.push_back(pace.own_ns[i] - pace.step_ns - fast_steps[i]);
        if (static_cast<double>(s.excess_ns) < kClear * ChanceOf(longer)) continue;
      }
      // In how many of its steps, and since when.
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
            std::all_of(pace.own_ns.begin() + static_cast<ptrdiff_t>(run), pace.own_ns.end(), [&](int64_t own) { return own - normal < s.excess_ns / 4; })) {
          s.since_op = pace.first_op[run - 1];
        }
      }
      found.push_back(s);
    }
  }
  FindLongPlaces(&found);
  std::vector<bool> slow_all_along(timing_.ranks.size());
  for (const Straggler& s : found) slow_all_along[s.rank] = true;
  // A rank slow since lately: its last steps against those before, where the whole record is still usual.
  for (const auto& role : paces_.roles) {
    for (uint32_t r : role) {
      const RankPace& pace = paces_.ranks[r];
      const size_t steps = pace.own_ns.size();
      if (steps < 8 || pace.by_place.empty() || slow_all_along[r]) continue;
      std::vector<int64_t> sorted = pace.own_ns;
      const int64_t normal = Quantile(&sorted, 0.25);
      size_t run = 0;
      const int64_t bar = normal + std::max(static_cast<int64_t>(kWorthOwn * 2 * static_cast<double>(normal)), pace.step_ns / 25);
      while (run < steps && pace.own_ns[run] > bar) ++run;
      if (run < 4 || run * 2 > steps + 1) continue;
      const auto later = std::count_if(pace.own_ns.begin() + static_cast<ptrdiff_t>(run), pace.own_ns.end(), [&](int64_t own) { return own > bar; });
      if (later > 0) continue;
      Straggler s;
      s.rank = r;
      s.excess_ns = OwnOver(pace, 0, run) - OwnOver(pace, run, steps);
      if (s.excess_ns <= bar - normal) continue;
      s.uncertainty_ns = static_cast<int64_t>(2.0 * static_cast<double>(noise_ns_[r]) * std::sqrt(pace.operations / 3.0 / static_cast<double>(run)));
      s.slowdown = 1 + static_cast<double>(s.excess_ns) / static_cast<double>(std::max<int64_t>(normal, pace.step_ns / 20));
      s.own_ns = normal + s.excess_ns;
      s.since_op = pace.first_op[run - 1];
      // Many of a role slower since then: the work changed.
      constexpr size_t kLookedAt = 64;
      size_t also = 0, looked = 0;
      for (size_t k = 0; k < role.size(); k += 1 + role.size() / kLookedAt) {
        const RankPace& theirs = paces_.ranks[role[k]];
        ++looked;
        if (theirs.own_ns.size() <= run + 1 || theirs.by_place.empty()) continue;
        also += OwnOver(theirs, 0, run) - OwnOver(theirs, run, theirs.own_ns.size()) > s.excess_ns / 2;
      }
      if (also * 2 > looked || s.excess_ns <= s.uncertainty_ns) continue;
      found.push_back(s);
    }
  }
  // A doubtful one counts where most of its host, or of its group where hosts are not known, is slow without a doubt, and in a group too small
  // for that where the slower one that it waits for accounts for all of its waiting. One step alone is no more than chance, except beside a
  // member of its group that is slow in all of them.
  std::map<std::string, int> certain, present;
  for (const Straggler& s : found) certain[timing_.model.bundle.ranks[s.rank].host] += !s.doubtful;
  for (const Rank& rank : timing_.model.bundle.ranks) ++present[rank.host];
  std::map<uint32_t, size_t> certain_in, lasting_in;   // communicators
  for (const Straggler& s : found) {
    for (const Membership& m : timing_.model.bundle.ranks[s.rank].memberships) certain_in[m.comm] += !s.doubtful, lasting_in[m.comm] += !s.doubtful && !s.brief;
  }
  std::map<uint32_t, uint32_t> beside;                 // rank -> class of the group in which it waits for a slower one
  std::set<uint32_t> accounted;                        // these slower ones: what the others wait less than that, they work longer
  for (const Straggler& s : found) {
    const Straggler* slower = s.doubtful ? SlowBesideASlower(s, found, certain_in) : nullptr;
    if (slower == nullptr) continue;
    beside[s.rank] = s.waits_in;
    accounted.insert(slower->rank);
    if (s.brief) continue;
    for (const Membership& m : timing_.model.bundle.ranks[s.rank].memberships) lasting_in[m.comm] += paces_.class_of_comm[m.comm] == s.waits_in;
  }
  const size_t bundle_size = timing_.model.bundle.ranks.size();
  std::erase_if(found, [&](const Straggler& s) {
    if (!s.doubtful && !s.brief) return false;
    const Rank& rank = timing_.model.bundle.ranks[s.rank];
    if (!rank.host.empty()) return certain[rank.host] * 2 < present[rank.host];
    if (beside.contains(s.rank)) return false;
    return std::none_of(rank.memberships.begin(), rank.memberships.end(), [&](const Membership& m) {
      const size_t size = timing_.model.comms[m.comm].members.size();
      return s.doubtful ? size >= 4 && certain_in[m.comm] * 2 >= size : size < bundle_size && lasting_in[m.comm] > 0;
    });
  });
  // What it costs the job: only where others wait for it.
  std::vector<bool> named(timing_.ranks.size());
  for (const Straggler& s : found) named[s.rank] = true;
  // Who waits in its group for a slower one is of those who wait there.
  const auto counts = [&](uint32_t rank, const Meeting& meeting) {
    const auto it = beside.find(rank);
    return named[rank] && (it == beside.end() || it->second != paces_.class_of_comm[meeting.comm]);
  };
  std::map<uint32_t, std::map<uint32_t, int64_t>> waited;   // straggler -> communicator -> time that others lost
  struct Among {
    int64_t compared = 0, last = 0;
  };
  std::map<uint32_t, Among> among_others;   // straggler -> collectives with others, and those in which it came after all of these
  for (const Meeting& meeting : timing_.meetings) {
    // Each of the named counts by itself: the second slowest of a host is no less slow for the slowest being there.
    int64_t others = INT64_MAX;
    bool any = false;
    for (uint32_t a = 0; a < meeting.count; ++a) {
      const Attendance& who = timing_.attendance[meeting.first + a];
      const TimedOp& t = timing_.At(who);
      if (t.start_ns == 0) continue;
      any |= named[who.rank];
      if (!counts(who.rank, meeting)) others = std::min(others, t.Duration());
    }
    if (!any || others == INT64_MAX) continue;
    for (uint32_t a = 0; a < meeting.count; ++a) {
      const Attendance& who = timing_.attendance[meeting.first + a];
      const TimedOp& t = timing_.At(who);
      if (t.start_ns == 0 || !counts(who.rank, meeting)) continue;
      if (others > t.Duration()) waited[who.rank][meeting.comm] += others - t.Duration();
      Among& among = among_others[who.rank];
      ++among.compared;
      among.last += others - t.Duration() > 2 * noise_ns_[who.rank];
    }
  }
  std::vector<Straggler> kept;
  for (Straggler& s : found) {
    const RankPace& pace = paces_.ranks[s.rank];
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
    // A cost that what the times are worth explains by half is not known to be one: marks that are looked at every so often, ranks that
    // a busy host lets run one after the other.
    if (s.cost_ns <= 2 * s.uncertainty_ns) continue;
    // Where own time is only what durations leave of a step, work beside operations blurs it: then others must be seen to wait for it.
    if (pace.durations_only && s.cost_ns * 2 < s.excess_ns && !accounted.contains(s.rank)) continue;
    // Work that is slow makes its rank come last again and again; a few long waits (a communicator made anew, a neighbour on the host
    // now and then) do not, though each of few steps may have met one. Enough steps tell it by themselves: there what comes once a step
    // counts.
    const bool few = pace.durations_only || pace.own_ns.size() < kEnoughSteps;
    if (const Among& among = among_others[s.rank]; few && among.compared >= kFewMeetings && among.last * 5 < among.compared) continue;
    kept.push_back(s);
  }
  FindLateByHabit(&kept);
  // Slow where nobody waits for it is no cost.
  const int64_t most = kept.empty() ? 0 : std::max_element(kept.begin(), kept.end(), [](const Straggler& a, const Straggler& b) { return a.cost_ns < b.cost_ns; })->cost_ns;
  std::erase_if(kept, [&](const Straggler& s) {
    const auto step = static_cast<double>(paces_.ranks[s.rank].step_ns);
    return static_cast<double>(most) < kWorthSaying * step || (s.cost_ns * 8 < most && s.cost_ns * 4 < s.excess_ns);
  });
  return kept;
}

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
    if (!s.habit) factors.push_back(static_cast<int64_t>(s.slowdown * 1000));   // of the others it is not known
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
  const bool one = group.size() == 1;
  const std::string waits = absl::StrCat(", and the others wait ", Milliseconds(worst->cost_ns), one ? " for it" : " for them", steps ? " in each step" : " over what was recorded");
  if (worst->habit) {
    const std::string later = Milliseconds(habits_[worst->rank].later_ns);
    c.what = absl::StrCat(one ? absl::StrCat("is slow: its own work makes it come to its group's operations later than the others, often by ", later, " and more")
                              : absl::StrCat("are slow: their own work makes them come to their group's operations later than others, the latest often by ", later, " and more"), waits);
  } else {
    c.what = absl::StrCat(one ? "is slow: its own work between operations takes " : "are slow: their own work between operations takes ", Percent(c.slowdown - 1),
                          one ? " longer than its siblings'" : " longer than their siblings'", waits);
  }
  // How clear: the excess against what the times are worth, and how many siblings there are to compare with.
  const size_t siblings = paces_.roles[pace.role].size();
  c.confidence = siblings >= 4 ? 0.92 : siblings == 3 ? 0.88 : 0.8;
  if (!steps) c.confidence -= 0.07;
  // What durations leave of a step is its own work by inference: of a slow host whose ranks' operations all lie beside their work only
  // the slowest rank shows.
  if (pace.durations_only) c.confidence = std::min(c.confidence, 0.88);
  if (worst->excess_ns < 3 * worst->uncertainty_ns) c.confidence -= 0.1;
  const Lateness& late = lateness_[worst->rank];
  if (worst->habit) {
    const Habit& habit = habits_[worst->rank];
    c.evidence.push_back({absl::StrCat("over ", habit.meetings, " operations of ", CommText(bundle.comms[habit.comm]), " with nothing else between, rank ", rank.rank,
                                       " came ", Milliseconds(habit.later_ns), " or more after the first in a quarter; of half the members of such groups it is ",
                                       Milliseconds(habit.usual_ns)),
                          {static_cast<int32_t>(worst->rank)}});
  } else {
    c.evidence.push_back({absl::StrCat("rank ", rank.rank, " works ", Milliseconds(worst->own_ns), steps ? " a step" : "",
                                       " outside of operations, ranks in the same role ", Milliseconds(worst->own_ns - worst->excess_ns),
                                       " (+- ", Milliseconds(worst->uncertainty_ns), ")"),
                          {static_cast<int32_t>(worst->rank)}});
  }
  if (late.compared > 0) {
    c.evidence.push_back({absl::StrCat("it came last in ", late.last, " of ", late.compared, " collectives that were compared"),
                          {static_cast<int32_t>(worst->rank)}});
  }
  if (!worst->habit) {
    c.evidence.push_back({"it waits in no kind of operation longer than its siblings: its lateness is its own", {static_cast<int32_t>(worst->rank)}});
  }
  c.advice = "1. Compare clocks, power and temperature of the named GPUs with their neighbours (nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,PERFORMANCE).\n"
             "2. Look for other work on the host, and for data or shapes that only these ranks have.";
  c.refuted_by = "the ranks in the same role having less work by design";
  c.cause = "late";
  return c;
}

// Where no host is known: communicators that are slow as a whole, the smallest kind first. As many faults at once are unlikely; their
// members stand together (a tensor-parallel group fills a host or a part of it), so they are told together.
void Slowness::TakeWholeGroups(const std::vector<Straggler>& stragglers, std::vector<bool>* told, std::vector<Cause>* causes) const {
  const Bundle& bundle = timing_.model.bundle;
  std::map<uint32_t, const Straggler*> slow;
  for (const Straggler& s : stragglers) {
    if (!(*told)[s.rank] && bundle.ranks[s.rank].host.empty()) slow[s.rank] = &s;
  }
  if (slow.size() < 2) return;
  std::map<std::pair<size_t, uint32_t>, std::vector<uint32_t>> whole;   // size and class of the communicators -> these
  std::set<std::pair<size_t, uint32_t>> together;                       // of these, where members of one are seen to be slow together
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
      measured += paces_.ranks[static_cast<size_t>(m.rank_index)].step_ns > 0 || ByHabit(static_cast<uint32_t>(m.rank_index));
    }
    // Who is late by habit is so against the first of the group, which may be no less slow than the rest that comes with it.
    const bool most = here * 4 >= measured * 3 || (by_habit && here * 2 > measured);
    if (here == 0 || here * 2 < members.size() || !most) continue;
    const std::pair kind(members.size(), paces_.class_of_comm[comm]);
    whole[kind].push_back(comm);
    if (here >= 2) together.insert(kind);
  }
  // One whose peers are all unknown is slow as a whole only where nothing else holds it together with others.
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
    c.evidence.push_back({absl::StrCat(group.size(), " of the ", ranks.size(), " members of ", comms.size() == 1 ? "one communicator" : absl::StrCat(comms.size(), " communicators"),
                                       " are slow at once: they may share a host, a rack or its power"),
                          c.ranks});
    causes->push_back(std::move(c));
  }
}

std::vector<Cause> Slowness::Find() {
  std::vector<Cause> causes;
  std::vector<Straggler> stragglers = FindStragglers();
  // Ranks of one host, switch or rail are told together; else one finding a rank, unless there are many.
  if (!stragglers.empty()) {
    const Things things(timing_.model.bundle);
    std::vector<int32_t> ranks;
    for (const Straggler& s : stragglers) ranks.push_back(static_cast<int32_t>(s.rank));
    std::sort(ranks.begin(), ranks.end());
    std::vector<bool> told(timing_.ranks.size());
    const auto take = [&](const Things::Thing& thing) {
      std::vector<Straggler> group;
      for (const Straggler& s : stragglers) {
        if (!told[s.rank] && std::binary_search(thing.ranks.begin(), thing.ranks.end(), static_cast<int32_t>(s.rank))) group.push_back(s);
      }
      size_t measured = 0;
      for (int32_t r : thing.ranks) measured += paces_.ranks[static_cast<size_t>(r)].step_ns > 0 || ByHabit(static_cast<uint32_t>(r));
      if (group.size() < 2 || group.size() * 4 < measured * 3) return;
      for (const Straggler& s : group) told[s.rank] = true;
      Cause c = ToCause(group);
      c.ranks = thing.ranks;   // nearly all of them, measured; the rest stands in the same place
      const bool host = std::string_view(thing.kind) == "host";
      if (host) c.kind = SLOW_HOST;
      c.cause = host ? "host" : "late";
      c.factor.emplace();
      c.factor->set_kind(thing.kind);
      c.factor->set_name(thing.name);
      c.factor->set_culprits(static_cast<int32_t>(group.size()));
      c.factor->set_members(static_cast<int32_t>(thing.ranks.size()));
      c.confidence = std::min(0.95, c.confidence + 0.03);
      causes.push_back(std::move(c));
    };
    if (const Things::Thing* all = things.CommonTo(ranks)) take(*all);
    for (const Things::Thing& thing : things.things) {
      if (std::string_view(thing.kind) == "host") take(thing);
    }
    TakeWholeGroups(stragglers, &told, &causes);
    std::vector<Straggler> rest;
    for (const Straggler& s : stragglers) {
      if (!told[s.rank]) rest.push_back(s);
    }
    if (rest.size() > 4) {
      causes.push_back(ToCause(rest));
    } else {
      for (const Straggler& s : rest) causes.push_back(ToCause({s}));
    }
  }
  if (paces_.whole_steps) {
    std::vector<bool> named(timing_.ranks.size());
    for (const Cause& c : causes) {
      for (int32_t r : c.ranks) named[static_cast<size_t>(r)] = true;
    }
    for (Cause& c : FindRandomlyLate(Things(timing_.model.bundle), named)) causes.push_back(std::move(c));
  }
  const std::vector<LinkUse> uses = FindLinkUses(timing_, noise_ns_);
  for (Cause& c : FindSlowLinks(timing_, paces_, uses, &bandwidths_)) causes.push_back(std::move(c));
  // Sends and receives that are called as one end together, so that one of them may wait for a partner of another: where they are all that tells
  // of a link, and point to none, a rank that is late by its own work is the likelier reason, whatever each of the two costs.
  const bool late = std::any_of(causes.begin(), causes.end(), [](const Cause& c) { return c.kind != SLOW_LINK && c.confidence >= kSure; });
  const auto behind = [&](const Cause& c) { return late && c.kind == SLOW_LINK && c.op == nullptr && c.confidence < kPointsSomewhere; };
  std::stable_sort(causes.begin(), causes.end(), [&](const Cause& a, const Cause& b) {
    return std::tuple(behind(a), -a.cost_ns_per_step) < std::tuple(behind(b), -b.cost_ns_per_step);
  });
  found_ = !causes.empty();
  return causes;
}

void Slowness::Fill(Verdict* verdict) const {
  const Bundle& bundle = timing_.model.bundle;
  std::vector<uint32_t> order;
  int64_t measured = 0, hosts = 0, timed = 0, much = 0, most_last = 0;
  int32_t late_ranks = 0;
  for (uint32_t r = 0; r < lateness_.size(); ++r) {
    measured += timing_.ranks[r].arrivals == Arrivals::kGpu;
    hosts += timing_.ranks[r].arrivals == Arrivals::kHost;
    timed += !timing_.ranks[r].ops.empty();
    most_last = std::max(most_last, lateness_[r].much);
    much += lateness_[r].much;
    late_ranks += lateness_[r].much > 0;
    if (lateness_[r].last > 0) order.push_back(r);
  }
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::tie(lateness_[a].last, lateness_[a].later_ns) > std::tie(lateness_[b].last, lateness_[b].later_ns);
  });
  for (size_t i = 0; i < order.size() && i < kMostArrivals; ++i) {
    const Lateness& late = lateness_[order[i]];
    Arrival* out = verdict->add_arrivals();
    out->set_rank(bundle.ranks[order[i]].rank);
    out->set_operations(late.compared);
    out->set_last(late.last);
    out->set_lateness_ns(late.later_ns);
    // How often chance alone makes one last strays by about the root of it.
    const auto last = static_cast<double>(late.last);
    if (late.compared >= kFewMeetings) {
      const double stray = std::sqrt(late.by_chance);
      if (late.last * 2 >= late.compared && last > late.by_chance + 4 * stray) out->set_pattern("persistent");
      if (last <= late.by_chance + 3 * stray) out->set_pattern("random");
    }
    out->set_uncertainty_ns(static_cast<int64_t>(2.0 * static_cast<double>(noise_ns_[order[i]]) * std::sqrt(static_cast<double>(late.last))));
  }
  for (const Bandwidth& b : bandwidths_) *verdict->add_bandwidths() = b;
  const auto total = static_cast<int64_t>(bundle.ranks.size());
  if (timed == 0) {
    verdict->add_not_measured("who arrives late, and bandwidth: nothing recorded when operations ran on the GPU; events, the profiler or "
                              "a framework's timing (TORCH_NCCL_ENABLE_TIMING=1) would");
  } else if (measured + hosts == 0) {
    verdict->add_not_measured("who arrives late: only the ends of operations were recorded, and hosts run ahead of their GPUs; start times "
                              "(LOCKSTEP_GPU=full or events, the profiler, TORCH_NCCL_ENABLE_TIMING=1) would tell");
  } else if (measured + hosts < total) {
    verdict->add_not_measured(absl::StrCat("arrivals of ", total - measured - hosts, " of ", total, " ranks: nothing recorded when they reached operations"));
  }
  // Waiting that adds up to something, and nobody to blame: said, so that nobody blames the last step's loser.
  if (!found_ && paces_.whole_steps && paces_.step_ns > 0 && late_ranks >= 3 && most_last * 2 < much) {
    int64_t delays = 0;
    size_t steps = 1;
    for (const RankPace& pace : paces_.ranks) {
      if (pace.own_ns.empty()) continue;
      steps = std::max(steps, pace.own_ns.size());
      std::vector<int64_t> own = pace.own_ns;
      const int64_t usual = Quantile(&own, 0.25);
      for (int64_t o : pace.own_ns) delays += o - usual > pace.step_ns / 50 ? o - usual : 0;
    }
    if (delays / static_cast<int64_t>(steps) > paces_.step_ns / 20) {
      verdict->add_not_the_cause(absl::StrCat("NO persistent straggler: lateness is random, another rank each time (", late_ranks,
                                              " ranks, none of them more than ", Percent(static_cast<double>(most_last) / static_cast<double>(much)),
                                              " of these times; all delays together come to ",
                                              Milliseconds(delays / static_cast<int64_t>(steps)), " a step)"));
    }
  }
}

}  // namespace lockstep
