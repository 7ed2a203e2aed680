#include "analyzer/engine/facts/clock.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analyzer/util/numbers.h"
#include "analyzer/util/sorted.h"

namespace lockstep {
namespace {

// Number of operations used from one communicator, spread over its record.
constexpr uint32_t kMostShared = 256;
// Maximum drift between two clocks that nobody sets, in seconds per second: quartz errors and clock steering, with a
// margin.
constexpr double kMostDrift = 200e-6;
// Number of operations that must agree that a clock was set; if fewer agree, their records count as damaged.
constexpr size_t kLeastProof = 3;
constexpr int kMostClocksShown = 4096;
// Clocks never differ by this much. A larger difference comes from damage and would make sums overflow.
constexpr int64_t kMostApart = int64_t{1} << 61;

}  // namespace

Clocks::Clocks(const Timing& timing)
    : clocks(timing.clock_names.size()), timing_(timing), comms_of_clock_(clocks.size()) {
  if (clocks.empty()) return;
  if (clocks.size() == 1) {
    clocks[0].epochs.push_back({});
    return;
  }
  Fold();
  FoldCreations();
  for (uint32_t i = 0; i < shared_.size(); ++i) {
    if (i > 0 && shared_[i].comm == shared_[i - 1].comm) continue;
    std::vector<uint32_t> members;
    for (uint32_t k = i; k < shared_.size() && shared_[k].comm == shared_[i].comm; ++k) {
      for (uint32_t s = 0; s < shared_[k].count; ++s) members.push_back(seen_[shared_[k].first + s].clock);
    }
    SortUnique(&members);
    for (uint32_t clock : members) comms_of_clock_[clock].push_back(i);
  }
  AlignAll(0);
  // If most clocks seem to have been set, the reference clock was probably set instead.
  const int stepped = Stepped();
  if (stepped >= 2 && stepped * 2 > static_cast<int>(clocks.size()) - 1) {
    std::vector<HostClock> before = std::move(clocks);
    clocks.assign(before.size(), {});
    AlignAll(1);
    if (Stepped() >= stepped) clocks = std::move(before);
  }
  seen_ = {};
  shared_ = {};
  comms_of_clock_ = {};
}

void Clocks::Add(uint32_t comm, bool estimated, std::vector<Seen>* members) {
  std::ranges::sort(*members, {}, &Seen::clock);
  Shared shared{comm, static_cast<uint32_t>(seen_.size()), 0, estimated};
  for (const Seen& member : *members) {
    if (shared.count > 0 && seen_.back().clock == member.clock) {
      seen_.back().entered_ns = std::max(seen_.back().entered_ns, member.entered_ns);
      seen_.back().left_ns = std::min(seen_.back().left_ns, member.left_ns);
    } else {
      seen_.push_back(member);
      ++shared.count;
    }
  }
  // Even on a single clock, no member leaves before the last one has entered. If an operation contradicts this, its
  // record is damaged, or the clock was set in the meantime.
  uint32_t kept = 0;
  for (uint32_t i = 0; i < shared.count; ++i) {
    const Seen& seen = seen_[shared.first + i];
    if (seen.entered_ns <= seen.left_ns) seen_[shared.first + kept++] = seen;
  }
  seen_.resize(shared.first + kept);
  shared.count = kept;
  if (kept >= 2) {
    shared_.push_back(shared);
  } else {
    seen_.resize(shared.first);
  }
}

void Clocks::Fold() {
  std::vector<Seen> members;
  const auto& meetings = timing_.meetings;
  for (size_t begin = 0; begin < meetings.size();) {
    size_t end = begin;
    while (end < meetings.size() && meetings[end].comm == meetings[begin].comm) ++end;
    const size_t step = (end - begin + kMostShared - 1) / kMostShared;
    for (size_t i = begin; i < end; i += step) {
      members.clear();
      for (const Attendance& who : timing_.Of(meetings[i])) {
        const TimedRank& rank = timing_.ranks[who.rank];
        const Op& op = timing_.OpOf(who);
        const int64_t started = IsTime(op.started_ns) ? op.started_ns - rank.late_by_ns : 0;
        const int64_t entered = std::max(IsTime(op.enter_ns) ? op.enter_ns : 0, started);
        if (entered > 0) members.push_back({rank.clock, entered, timing_.At(who).end_ns});
      }
      Add(meetings[i].comm, true, &members);
    }
    begin = end;
  }
}

// A communicator is not ready on any member before the last member has started to create it.
void Clocks::FoldCreations() {
  std::vector<Seen> members;
  for (uint32_t c = 0; c < timing_.model.comms.size(); ++c) {
    members.clear();
    for (const Member& m : timing_.model.comms[c].members) {
      if (!m.recorded()) continue;
      const Membership& ms = timing_.model.MembershipOf(m);
      if (!IsTime(ms.created_ns) || !IsTime(ms.ready_ns)) continue;
      members.push_back({timing_.ranks[m.rank_index].clock, ms.created_ns, ms.ready_ns});
    }
    Add(c, false, &members);
  }
  std::ranges::stable_sort(shared_, {}, &Shared::comm);
}

int Clocks::Stepped() const {
  return static_cast<int>(std::ranges::count_if(clocks, [](const HostClock& c) { return c.epochs.size() > 1; }));
}

// Searches breadth-first from the root. Each communicator is visited once, from its first aligned clock.
void Clocks::AlignAll(uint32_t root) {
  clocks[root].epochs.push_back({INT64_MIN, INT64_MAX, 0, 0, 0, 0});
  std::vector<uint32_t> queue{root};
  std::vector<bool> done(shared_.size());
  std::vector<std::vector<Sample>> samples(clocks.size());
  std::vector<uint32_t> found;
  const auto wall = [&](uint32_t clock) {
    return std::clamp(timing_.model.bundle.ranks[timing_.first_rank_of_clock[clock]].real_minus_mono_ns, -kMostApart,
                      kMostApart);
  };
  for (size_t at = 0; at < queue.size(); ++at) {
    const uint32_t parent = queue[at];
    found.clear();
    int64_t parent_uncertainty = 0;
    for (const ClockEpoch& e : clocks[parent].epochs)
      parent_uncertainty = std::max(parent_uncertainty, e.uncertainty_ns);
    const auto to_job = [&](int64_t own) { return EpochAt(clocks[parent], own).ToJob(own); };
    for (uint32_t first : comms_of_clock_[parent]) {
      if (done[first]) continue;
      done[first] = true;
      for (uint32_t i = first; i < shared_.size() && shared_[i].comm == shared_[first].comm; ++i) {
        const Seen* begin = seen_.data() + shared_[i].first;
        const Seen* end = begin + shared_[i].count;
        const Seen* own =
            std::lower_bound(begin, end, parent, [](const Seen& s, uint32_t clock) { return s.clock < clock; });
        if (own == end || own->clock != parent) continue;
        const int64_t entered = to_job(own->entered_ns), left = to_job(own->left_ns);
        for (const Seen* s = begin; s != end; ++s) {
          if (clocks[s->clock].aligned()) continue;
          if (samples[s->clock].empty()) found.push_back(s->clock);
          samples[s->clock].push_back(
              {left, entered - s->left_ns, left - s->entered_ns, left - s->left_ns, s->left_ns, shared_[i].estimated});
        }
      }
    }
    std::ranges::sort(found);
    for (uint32_t clock : found) {
      clocks[clock].epochs = Fit(std::move(samples[clock]), parent_uncertainty, wall(clock) - wall(root));
      samples[clock] = {};
      if (clocks[clock].aligned()) queue.push_back(clock);
    }
  }
}

std::vector<ClockEpoch> Clocks::Fit(std::vector<Sample> samples, int64_t parent_uncertainty_ns, int64_t wall_ns) {
  std::erase_if(samples, [](const Sample& s) { return s.low > s.high || s.low < -kMostApart || s.high > kMostApart; });
  std::ranges::stable_sort(samples, {}, &Sample::at_ns);
  // Runs of operations with compatible bounds. Bounds widen over time because clocks drift.
  std::vector<std::vector<Sample>> runs;
  struct Run {
    std::vector<Sample> members;
    int64_t low = 0, high = 0, last_ns = 0;
    bool Take(const Sample& s) {
      const auto slack = static_cast<int64_t>(kMostDrift * static_cast<double>(s.at_ns - last_ns));
      const int64_t l = members.empty() ? s.low : std::max(low - slack, s.low),
                    h = members.empty() ? s.high : std::min(high + slack, s.high);
      if (l > h) return false;
      low = l;
      high = h;
      last_ns = s.at_ns;
      members.push_back(s);
      return true;
    }
  };
  Run current, other;
  for (const Sample& s : samples) {
    if (current.Take(s)) {
      other = {};
      continue;
    }
    if (!other.Take(s)) {
      other = {};
      other.Take(s);
    }
    if (other.members.size() < kLeastProof) continue;
    runs.push_back(std::move(current.members));
    current = std::move(other);
    other = {};
  }
  runs.push_back(std::move(current.members));
  // The record may end too soon for kLeastProof operations, so two that agree are enough here.
  if (other.members.size() >= 2) runs.push_back(std::move(other.members));
  size_t longest = 0;
  for (const auto& run : runs) longest = std::max(longest, run.size());
  std::vector<ClockEpoch> epochs;
  for (const auto& run : runs) {
    ClockEpoch epoch;
    if (run.empty() || (run.size() < 2 && longest >= kLeastProof)) continue;
    FitOne(run, wall_ns, &epoch);
    epoch.uncertainty_ns += parent_uncertainty_ns;
    epochs.push_back(epoch);
  }
  return epochs;
}

void Clocks::FitOne(const std::vector<Sample>& samples, int64_t wall_ns, ClockEpoch* epoch) {
  epoch->first_ns = epoch->last_ns = samples[0].own_ns;
  std::vector<const Sample*> estimates;
  for (const Sample& s : samples) {
    epoch->first_ns = std::min(epoch->first_ns, s.own_ns);
    epoch->last_ns = std::max(epoch->last_ns, s.own_ns);
    if (s.estimated) estimates.push_back(&s);
  }
  epoch->middle_ns = epoch->first_ns + (epoch->last_ns - epoch->first_ns) / 2;
  // Compares the last third with the first to find the drift, if both have enough operations to outvote outliers.
  if (estimates.size() >= 12 && epoch->last_ns - epoch->first_ns > 1'000'000'000) {
    const size_t third = estimates.size() / 3;
    std::vector<int64_t> early, late, early_at, late_at;
    for (size_t i = 0; i < third; ++i) {
      early.push_back(estimates[i]->estimate);
      early_at.push_back(estimates[i]->own_ns);
      late.push_back(estimates[estimates.size() - 1 - i]->estimate);
      late_at.push_back(estimates[estimates.size() - 1 - i]->own_ns);
    }
    const int64_t span = Median(late_at) - Median(early_at);
    const double drift = span > 0 ? static_cast<double>(Median(late) - Median(early)) / static_cast<double>(span) : 0;
    if (std::fabs(drift) < kMostDrift) epoch->drift = drift;
  }
  const auto drifted = [&](const Sample& s) {
    return static_cast<int64_t>(epoch->drift * static_cast<double>(s.own_ns - epoch->middle_ns));
  };
  int64_t low = INT64_MIN, high = INT64_MAX;
  std::vector<int64_t> at_middle;
  for (const Sample& s : samples) {
    low = std::max(low, s.low - drifted(s));
    high = std::min(high, s.high - drifted(s));
    if (s.estimated) at_middle.push_back(s.estimate - drifted(s));
  }
  if (low > high) std::swap(low, high);  // the limits contradict each other, so the gap is the uncertainty
  const int64_t guess = at_middle.empty() ? wall_ns : Median(std::move(at_middle));
  epoch->offset_ns = std::clamp(guess, low, high);
  epoch->uncertainty_ns = std::max(high - epoch->offset_ns, epoch->offset_ns - low);
}

const ClockEpoch& Clocks::EpochAt(const HostClock& clock, int64_t own_ns) {
  const ClockEpoch* best = &clock.epochs.back();
  uint64_t distance = UINT64_MAX;
  for (auto it = clock.epochs.rbegin(); it != clock.epochs.rend(); ++it) {
    const uint64_t here = own_ns < it->first_ns  ? static_cast<uint64_t>(it->first_ns) - static_cast<uint64_t>(own_ns)
                          : own_ns > it->last_ns ? static_cast<uint64_t>(own_ns) - static_cast<uint64_t>(it->last_ns)
                                                 : 0;
    if (here < distance) {
      distance = here;
      best = &*it;
    }
  }
  return *best;
}

int64_t Clocks::ToJob(size_t rank_index, int64_t own_ns) const {
  const HostClock& clock = clocks[timing_.ranks[rank_index].clock];
  return clock.aligned() && IsTime(own_ns) ? EpochAt(clock, own_ns).ToJob(own_ns) : own_ns;
}

int64_t Clocks::Uncertainty(size_t rank_index, int64_t own_ns) const {
  const HostClock& clock = clocks[timing_.ranks[rank_index].clock];
  return clock.aligned() ? EpochAt(clock, own_ns).uncertainty_ns : -1;
}

void Clocks::Fill(Verdict* verdict) const {
  if (clocks.size() < 2) return;
  if (std::ranges::count_if(clocks, [](const HostClock& c) { return c.aligned(); }) < 2) return;
  for (size_t c = 0; c < clocks.size() && c < kMostClocksShown; ++c) {
    ClockOffset* out = verdict->add_clocks();
    out->set_host(timing_.clock_names[c]);
    out->set_uncertainty_ns(-1);
    if (!clocks[c].aligned()) continue;
    const ClockEpoch& last = clocks[c].epochs.back();
    out->set_offset_ns(last.offset_ns);
    out->set_uncertainty_ns(last.uncertainty_ns);
    out->set_stepped(clocks[c].epochs.size() > 1);
  }
}

}  // namespace lockstep
