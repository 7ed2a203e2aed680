#include "analyzer/engine/slow/slow.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>

#include "analyzer/engine/facts/factor.h"
#include "analyzer/util/numbers.h"

namespace lockstep {
namespace {

constexpr int kMostArrivals = 64;
constexpr size_t kMostNoiseSamples = 512;

}  // namespace

Slowness::Slowness(const Timing& timing, const Clocks& clocks)
    : timing_(timing),
      clocks_(clocks),
      paces_(timing),
      noise_ns_(timing.ranks.size()),
      lateness_(timing.ranks.size()),
      later_by_comm_(timing.ranks.size()) {
  MeasureNoise();
  CountArrivals();
  for (uint32_t r = 0; r < timing.ranks.size() && habits_.empty(); ++r) {
    if (paces_.ranks[r].role != kNoIndex && FewSteps(r)) habits_ = FindHabits(timing, paces_);
  }
}

// Members leave a collective at about the same moment. How far a rank's end times deviate from that moment limits their
// precision, for any source of times. Members on the rank's own clock show that best. Between hosts, clock alignment
// adds its error.
void Slowness::MeasureNoise() {
  std::vector<std::vector<int64_t>> strays(timing_.ranks.size()), own_strays(timing_.ranks.size());
  std::vector<std::pair<uint32_t, int64_t>> ends;  // rank and its end time; in the job's time if aligned
  const auto add = [&](auto first, auto last, std::vector<std::vector<int64_t>>* to) {
    if (last - first < 2) return;
    std::vector<int64_t> times;
    for (auto end = first; end != last; ++end) times.push_back(end->second);
    const int64_t moment = Median(std::move(times));
    for (auto end = first; end != last; ++end) (*to)[end->first].push_back(std::llabs(end->second - moment));
  };
  const size_t step =
      std::max<size_t>(1, timing_.attendance.size() / (kMostNoiseSamples * std::max<size_t>(1, timing_.ranks.size())));
  for (size_t i = 0; i < timing_.meetings.size(); i += step) {
    const Meeting& meeting = timing_.meetings[i];
    ends.clear();
    for (const Attendance& who : timing_.Of(meeting)) {
      if (clocks_.Aligned(who.rank)) ends.push_back({who.rank, clocks_.ToJob(who.rank, timing_.At(who).end_ns)});
    }
    add(ends.begin(), ends.end(), &strays);
    const auto clock = [&](const auto& end) { return timing_.ranks[end.first].clock; };
    std::stable_sort(ends.begin(), ends.end(), [&](const auto& x, const auto& y) { return clock(x) < clock(y); });
    for (auto first = ends.begin(); first != ends.end();) {
      const auto last = std::find_if(first, ends.end(), [&](const auto& end) { return clock(end) != clock(*first); });
      add(first, last, &own_strays);
      first = last;
    }
  }
  constexpr size_t kEnough = 8;
  for (size_t r = 0; r < noise_ns_.size(); ++r) {
    const Rank& rank = timing_.model.bundle.ranks[r];
    noise_ns_[r] = timing_.ranks[r].late_by_ns;
    if (rank.time_source == TimeSource::kFrameworkDurations) {
      noise_ns_[r] = 10'000;  // only the precision of durations matters here
    } else if (std::vector<int64_t>& from = own_strays[r].size() >= kEnough ? own_strays[r] : strays[r];
               from.size() >= kEnough) {
      const int64_t seen = std::max<int64_t>(2 * Quantile(&from, 0.9), 1000);
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
    for (const Attendance& who : timing_.Of(meeting)) {
      const TimedOp& t = timing_.At(who);
      if (t.start_ns == 0) continue;
      ++measured;
      // All members leave together, so the rank that was in the collective for the shortest time arrived last. No
      // clocks are compared.
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
    for (const Attendance& who : timing_.Of(meeting)) {
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
  std::sort(lates.begin(), lates.end(),
            [](const Late& a, const Late& b) { return std::tie(a.rank, a.comm) < std::tie(b.rank, b.comm); });
  for (size_t i = 0; i < lates.size();) {
    size_t k = i;
    int64_t sum = 0;
    for (; k < lates.size() && lates[k].rank == lates[i].rank && lates[k].comm == lates[i].comm; ++k)
      sum += lates[k].by_ns;
    later_by_comm_[lates[i].rank].push_back({lates[i].comm, sum});
    i = k;
  }
}

std::vector<Cause> Slowness::Find() {
  std::vector<Cause> causes;
  std::vector<Straggler> stragglers = FindStragglers();
  // Ranks of one host, switch, rack or rail are reported together. The others get one finding each, unless there are
  // many.
  if (!stragglers.empty()) {
    const Things things(timing_.model.bundle);
    std::vector<int32_t> ranks;
    ranks.reserve(stragglers.size());
    for (const Straggler& s : stragglers) ranks.push_back(static_cast<int32_t>(s.rank));
    std::sort(ranks.begin(), ranks.end());
    std::vector<bool> told(timing_.ranks.size());
    const auto take = [&](const Things::Thing& thing) {
      std::vector<Straggler> group;
      for (const Straggler& s : stragglers) {
        if (!told[s.rank] && std::binary_search(thing.ranks.begin(), thing.ranks.end(), static_cast<int32_t>(s.rank)))
          group.push_back(s);
      }
      size_t measured = 0;
      for (int32_t r : thing.ranks)
        measured += paces_.ranks[static_cast<size_t>(r)].step_ns > 0 || ByHabit(static_cast<uint32_t>(r));
      if (group.size() < 2 || group.size() * 4 < measured * 3) return;
      for (const Straggler& s : group) told[s.rank] = true;
      Cause c = ToCause(group);
      c.ranks = thing.ranks;  // almost all were measured as slow; the rest share the same part
      const bool host = std::string_view(thing.kind) == "host";
      if (host) c.kind = SLOW_HOST;
      c.cause = host ? "host" : "late";
      SetFactor(thing, group.size(), &c);
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
  speeds_ = FindSpeeds(timing_, uses);
  // Sends and receives of one group complete together, so one of them may wait for the partner of another. If they are
  // the only sign of a slow link, and point to no link, a rank that is late because of its own work is the likelier
  // reason.
  const bool late = std::any_of(causes.begin(), causes.end(),
                                [](const Cause& c) { return c.kind != SLOW_LINK && c.grade >= GRADE_GOOD; });
  const auto behind = [&](const Cause& c) {
    return late && c.kind == SLOW_LINK && c.op == nullptr && c.grade < GRADE_FAIR;
  };
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
    const LateArrivals& late = lateness_[order[i]];
    Arrival* out = verdict->add_arrivals();
    out->set_rank(bundle.ranks[order[i]].rank);
    out->set_operations(late.compared);
    out->set_last(late.last);
    out->set_lateness_ns(late.later_ns);
    // By chance alone, the number of times that a rank is last varies by about the square root of that number.
    const auto last = static_cast<double>(late.last);
    if (late.compared >= kFewMeetings) {
      const double stray = std::sqrt(late.by_chance);
      if (late.last * 2 >= late.compared && last > late.by_chance + 4 * stray) out->set_pattern("persistent");
      if (last <= late.by_chance + 3 * stray) out->set_pattern("random");
    }
    out->set_uncertainty_ns(ErrorOfSum(noise_ns_[order[i]], last));
  }
  for (const Bandwidth& b : bandwidths_) *verdict->add_bandwidths() = b;
  for (const Speed& speed : speeds_) *verdict->add_speeds() = speed;
  const auto total = static_cast<int64_t>(bundle.ranks.size());
  if (timed == 0) {
    verdict->add_unmeasured()->set_kind(Unmeasured::NO_TIMES);
  } else if (measured + hosts == 0) {
    verdict->add_unmeasured()->set_kind(Unmeasured::ONLY_ENDS);
  } else if (measured + hosts < total) {
    Unmeasured* some = verdict->add_unmeasured();
    some->set_kind(Unmeasured::SOME_ARRIVALS);
    some->set_count(total - measured - hosts);
    some->set_of(total);
  }
  const auto unjudged = static_cast<int64_t>(std::count_if(paces_.ranks.begin(), paces_.ranks.end(),
                                                           [](const RankPace& pace) { return pace.own_ns.empty(); }));
  if (!found_ && timed == total && habits_.empty() && 2 * unjudged > total) {
    Unmeasured* steps = verdict->add_unmeasured();
    steps->set_kind(Unmeasured::STEPS);
    steps->set_count(unjudged);
    steps->set_of(total);
  }
  // The waits add up, but no rank is at fault. Reports the waits so that nobody blames the rank that was late in the
  // last step.
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
      Detail* detail = RuleOut(NotTheCause::PERSISTENT_STRAGGLER, verdict)->mutable_detail();
      detail->set_count(static_cast<int64_t>(late_ranks));
      detail->set_value(static_cast<double>(most_last) / static_cast<double>(much));
      detail->set_duration_ns(delays / static_cast<int64_t>(steps));
    }
  }
}

}  // namespace lockstep
