#include "analyzer/engine/slow/pace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "analyzer/util/numbers.h"
#include "analyzer/util/parallel.h"

namespace lockstep {
namespace {

using ring::IsPointToPoint;

constexpr size_t kMostSteps = 64;
constexpr size_t kLeastSteps = 3;
// From this share of a longer wait on, a gap is shorter because of the wait. Where times are too coarse to show how
// waits vary, their errors alone make it a half.
constexpr double kFollows = 0.25;

bool DurationsOnly(const Rank& rank) {
  return rank.time_source == TimeSource::kFrameworkDurations;
}

}  // namespace

int64_t OwnOver(const RankPace& pace, size_t first, size_t last) {
  int64_t sum = 0;
  std::vector<int64_t> values;
  for (size_t place = 0; place < pace.places; ++place) {
    values.clear();
    for (size_t step = first; step < last; ++step) {
      const int64_t value = pace.by_place[step * pace.places + place];
      if (value >= 0) values.push_back(value);
    }
    // A place known in only a few steps would make sums that cannot be compared.
    if (values.size() * 2 > last - first) sum += Median(values);
  }
  return pace.durations_only ? pace.step_ns - sum : sum;
}

Paces::Paces(const Timing& timing) : ranks(timing.ranks.size()), timing_(timing) {
  Classify();
  FindOverlap();
  GiveRoles();
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    const Rank& rank = timing_.model.bundle.ranks[r];
    if (!DurationsOnly(rank)) continue;
    uint64_t last = UINT64_MAX;
    for (const TimedOp& t : timing_.ranks[r].ops) {
      if (t.start_ns == 0) continue;
      const uint64_t sort = SortOf(rank.ops[t.op], t.comm);
      if (sort != std::exchange(last, sort)) measured_.insert(sort);
    }
  }
  beside_.resize(roles.size());
  Parallel(roles.size(), [&](size_t role, size_t) { beside_[role] = WorkBesideWaiting(roles[role]); });
  Parallel(ranks.size(), [&](size_t r, size_t) {
    if (ranks[r].role != kNoIndex) Measure(static_cast<uint32_t>(r));
  });
  std::vector<int64_t> steps;
  for (const RankPace& pace : ranks) {
    if (!pace.own_ns.empty()) steps.push_back(pace.step_ns);
  }
  whole_steps = !steps.empty();
  step_ns = Median(std::move(steps));
}

void Paces::Classify() {
  std::map<std::string, uint32_t> classes;
  for (const CommView& view : timing_.model.comms) {
    class_of_comm.push_back(classes.try_emplace(view.klass, static_cast<uint32_t>(classes.size())).first->second);
  }
  overlapped_.assign(2 * classes.size(), false);
}

uint64_t Paces::SortOf(const Op& op, uint32_t comm) const {
  return (static_cast<uint64_t>(class_of_comm[comm]) << 16) | (static_cast<uint64_t>(op.kind) << 2) |
         (uint64_t{op.in_batch} << 1) | uint64_t{op.batch_end};
}

// Operations in the middle of which operations of other communicators often begin do not hold up the rank's own work.
void Paces::FindOverlap() {
  std::vector<uint32_t> all(overlapped_.size()), crossed(overlapped_.size());
  std::vector<const TimedOp*> order;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const Rank& rank = timing_.model.bundle.ranks[r];
    if (DurationsOnly(rank)) continue;
    order.clear();
    for (const TimedOp& t : timing_.ranks[r].ops) {
      if (t.start_ns != 0) order.push_back(&t);
    }
    std::sort(order.begin(), order.end(), [](const TimedOp* a, const TimedOp* b) {
      return std::tie(a->start_ns, a->op) < std::tie(b->start_ns, b->op);
    });
    for (size_t i = 0; i < order.size(); ++i) {
      const TimedOp& t = *order[i];
      const size_t key = 2 * class_of_comm[t.comm] + IsPointToPoint(rank.ops[t.op].kind);
      ++all[key];
      for (size_t k = i + 1; k < order.size() && k < i + 8 && order[k]->start_ns < t.end_ns; ++k) {
        if (order[k]->comm == t.comm || order[k]->start_ns == t.start_ns) continue;
        ++crossed[key];
        break;
      }
    }
  }
  for (size_t key = 0; key < all.size(); ++key) overlapped_[key] = crossed[key] * 5 > all[key];
}

void Paces::GiveRoles() {
  const Model& model = timing_.model;
  std::vector<uint32_t> comms_of_class(overlapped_.size() / 2);
  for (uint32_t k : class_of_comm) ++comms_of_class[k];
  std::map<std::vector<std::tuple<uint32_t, int32_t>>, uint32_t> known;
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    const Rank& rank = model.bundle.ranks[r];
    const TimedRank& timed = timing_.ranks[r];
    if (timed.arrivals == Arrivals::kNone || timed.ops.size() < 8) continue;
    std::vector<bool> used(rank.memberships.size());
    for (const TimedOp& t : timed.ops) used[rank.ops[t.op].membership] = true;
    std::vector<std::tuple<uint32_t, int32_t>> role;
    for (size_t i = 0; i < rank.memberships.size(); ++i) {
      if (!used[i]) continue;
      const Membership& m = rank.memberships[i];
      const bool pipeline = model.comms[m.comm].used_for_p2p && comms_of_class[class_of_comm[m.comm]] > 1;
      role.push_back({class_of_comm[m.comm], pipeline ? m.member_rank : -1});
    }
    std::sort(role.begin(), role.end());
    const auto [it, fresh] = known.try_emplace(std::move(role), static_cast<uint32_t>(roles.size()));
    if (fresh) roles.emplace_back();
    ranks[r].role = it->second;
    roles[it->second].push_back(r);
  }
}

std::vector<Paces::Between> Paces::Betweens(uint32_t r) const {
  const Rank& rank = timing_.model.bundle.ranks[r];
  const TimedRank& timed = timing_.ranks[r];
  const auto& ops = timed.ops;
  std::vector<Between> betweens(ops.size());
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < ops.size(); ++i) {
    if (ops[i].start_ns != 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::tie(ops[a].start_ns, ops[a].op) < std::tie(ops[b].start_ns, ops[b].op);
  });
  // The thread's call before each.
  std::vector<const Op*> before(rank.ops.size());
  std::map<uint32_t, const Op*> last;
  for (size_t i = 0; i < rank.ops.size(); ++i) {
    const Op& op = rank.ops[i];
    if (!op.recent_only && timed.Shows(op.enter_ns)) before[i] = std::exchange(last[op.thread], &op);
  }
  const auto overlaps = [&](uint32_t i) {
    return overlapped_[2 * class_of_comm[ops[i].comm] + IsPointToPoint(rank.ops[ops[i].op].kind)];
  };
  int64_t held_until = 0;  // by operations that hold up the rank's work
  size_t by_end = 0;       // operations that ended earlier, of any kind: ops is sorted by end
  int64_t beside_until = 0;
  for (uint32_t i : order) {
    const TimedOp& t = ops[i];
    for (; by_end < ops.size() && ops[by_end].end_ns <= t.start_ns; ++by_end) {
      if (overlaps(static_cast<uint32_t>(by_end))) beside_until = ops[by_end].end_ns;
    }
    if (overlaps(i)) continue;
    const Op& op = rank.ops[t.op];
    // It is unknown whether the work in between waited for what ended beside it. Then only the rest counts.
    const int64_t from = std::max(held_until, std::min(beside_until, t.start_ns));
    if (held_until != 0 && t.start_ns >= from) {
      Between& between = betweens[i];
      between.gap_ns = t.start_ns - from;
      const Op* const call = before[t.op];
      if (call != nullptr && call->membership != kNoIndex) {
        between.place = SortOf(*call, timing_.model.CommOf(rank, *call)) << 32 | SortOf(op, t.comm);
        const int64_t returned = timed.Shows(call->return_ns) ? call->return_ns : call->enter_ns;
        // If most of the gap lies behind the call, it is work of the GPU.
        const bool gpu = t.start_ns - std::max(op.enter_ns, from) > timed.late_by_ns + between.gap_ns / 2;
        if (op.enter_ns > returned && !gpu) between.host_ns = op.enter_ns - returned;
        between.ahead = op.enter_ns + timed.late_by_ns < from;
      }
    }
    held_until = std::max(held_until, t.end_ns);
  }
  return betweens;
}

// If the CPU threads work beside their own waiting, a longer wait leaves a shorter gap behind it. If they are held up
// as well, the gap does not depend on the wait.
std::map<uint64_t, Paces::Beside> Paces::WorkBesideWaiting(const std::vector<uint32_t>& role) const {
  struct Values {
    std::vector<int64_t> gaps;
    std::vector<int64_t> gaps_behind, waits;  // where the thread may have been held up
  };
  const auto mean = [](const std::vector<int64_t>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(std::max<size_t>(values.size(), 1));
  };
  std::map<uint64_t, Beside> places;
  std::map<uint64_t, std::pair<double, double>> shared;  // how waits vary, and how gaps vary with them
  for (uint32_t r : role) {
    if (DurationsOnly(timing_.model.bundle.ranks[r])) continue;
    std::map<uint64_t, Values> own;
    for (const Between& between : Betweens(r)) {
      if (between.gap_ns < 0) continue;
      Values& values = own[between.place];
      values.gaps.push_back(between.gap_ns);
      if (between.ahead || between.host_ns <= between.gap_ns) continue;
      values.gaps_behind.push_back(between.gap_ns);
      values.waits.push_back(between.host_ns - between.gap_ns);
    }
    for (auto& [place, values] : own) {
      const double gap = mean(values.gaps_behind), wait = mean(values.waits);
      for (size_t i = 0; i < values.waits.size(); ++i) {
        const double longer = static_cast<double>(values.waits[i]) - wait;
        shared[place].first += longer * longer;
        shared[place].second += longer * (static_cast<double>(values.gaps_behind[i]) - gap);
      }
      places[place].longest_ns = std::max(places[place].longest_ns, Quantile(&values.gaps, 0.9));
    }
  }
  for (auto& [place, beside] : places) beside.works = shared[place].second <= -kFollows * shared[place].first;
  return places;
}

std::vector<int64_t> Paces::Gaps(uint32_t r) const {
  std::vector<int64_t> gaps;
  const auto& places = beside_[ranks[r].role];
  for (const Between& between : Betweens(r)) {
    gaps.push_back(between.gap_ns);
    const auto it = places.find(between.place);
    if (between.gap_ns < 0 || it == places.end() || !(between.ahead || it->second.works)) continue;
    gaps.back() = std::max(between.gap_ns, std::min(between.host_ns, it->second.longest_ns));
  }
  return gaps;
}

// Where steps begin in the rank's program order: the shortest pattern of calls that repeats at the end of its record
// and contains every communicator that the pattern uses. Newest first.
std::vector<uint32_t> Paces::StepStarts(uint32_t r, const std::vector<uint32_t>& program) const {
  const Rank& rank = timing_.model.bundle.ranks[r];
  const auto& ops = timing_.ranks[r].ops;
  const size_t n = program.size();
  const auto sign = [&](size_t i) {
    const Op& op = rank.ops[ops[program[n - 1 - i]].op];
    return (static_cast<uint64_t>(op.membership) << 40) ^ (static_cast<uint64_t>(op.kind) << 32) ^
           static_cast<uint32_t>(op.root_or_peer);
  };
  std::vector<uint64_t> signs(n);
  for (size_t i = 0; i < n; ++i) signs[i] = sign(i);
  std::vector<uint32_t> border(n + 1, 0);
  for (size_t i = 1, k = 0; i < n; ++i) {
    while (k > 0 && signs[i] != signs[k]) k = border[k];
    if (signs[i] == signs[k]) ++k;
    border[i + 1] = static_cast<uint32_t>(k);
  }
  std::vector<bool> used(rank.memberships.size());
  for (const TimedOp& t : ops) used[rank.ops[t.op].membership] = true;
  const auto distinct = static_cast<size_t>(std::count(used.begin(), used.end(), true));
  std::vector<uint32_t> starts;
  for (size_t length = n; length >= 2 * kLeastSteps; --length) {
    const size_t period = length - border[length];
    if (period * kLeastSteps > length) continue;
    std::vector<bool> here(rank.memberships.size());
    for (size_t i = 0; i < period; ++i) here[rank.ops[ops[program[n - 1 - i]].op].membership] = true;
    // A communicator used only at the start of a job (a barrier, a first exchange) belongs to no step.
    if (static_cast<size_t>(std::count(here.begin(), here.end(), true)) < distinct && length * 2 < n) break;
    for (size_t k = 1; k <= kMostSteps && k * period <= length; ++k) {
      // What came before the first record is unknown: the step that begins with it is not whole.
      if (k * period < n || starts.size() < kLeastSteps) starts.push_back(static_cast<uint32_t>(n - k * period));
    }
    break;
  }
  return starts;
}

std::vector<uint32_t> Paces::ProgramOrder(uint32_t r) const {
  const Rank& rank = timing_.model.bundle.ranks[r];
  const auto& ops = timing_.ranks[r].ops;
  std::vector<uint32_t> program(ops.size());
  std::iota(program.begin(), program.end(), 0u);
  const auto earlier = [&](uint32_t a, uint32_t b) {
    const Op &x = rank.ops[ops[a].op], &y = rank.ops[ops[b].op];
    if (x.record_id >= 0 && y.record_id >= 0 && x.record_id != y.record_id) return x.record_id < y.record_id;
    if (x.thread != y.thread && x.enter_ns != y.enter_ns) return x.enter_ns < y.enter_ns;
    return ops[a].op < ops[b].op;
  };
  // They usually ended in that order. Stable, because the clocks and numbers of hostile records may form a circle.
  if (!std::is_sorted(program.begin(), program.end(), earlier))
    std::stable_sort(program.begin(), program.end(), earlier);
  return program;
}

void Paces::Measure(uint32_t r) {
  const Rank& rank = timing_.model.bundle.ranks[r];
  const auto& ops = timing_.ranks[r].ops;
  RankPace& pace = ranks[r];
  const bool durations_only = DurationsOnly(rank);
  const std::vector<uint32_t> program = ProgramOrder(r);
  const std::vector<int64_t> gaps = durations_only ? std::vector<int64_t>(ops.size(), -1) : Gaps(r);
  const std::vector<Between> plain = durations_only ? std::vector<Between>(ops.size()) : Betweens(r);
  const std::vector<uint32_t> starts = StepStarts(r, program);
  std::map<uint32_t, int64_t> inside;
  pace.durations_only = durations_only;
  if (starts.size() >= kLeastSteps) {
    std::vector<int64_t> lengths;
    const auto period = static_cast<uint32_t>(program.size()) - starts[0];
    std::map<uint64_t, std::vector<int64_t>> by_kind;
    std::vector<int64_t> least;
    uint32_t end = static_cast<uint32_t>(program.size());
    // What operation times leave of a step is the rank's own work only if nearly all of them are known. A watchdog that
    // has not looked since, or was held up, records none of its last operations.
    const auto told = [&](uint32_t from, uint32_t to) {
      size_t known = 0, expected = 0;
      for (uint32_t i = from; i < to; ++i) {
        const TimedOp& t = ops[program[i]];
        known += t.start_ns != 0;
        expected += measured_.contains(SortOf(rank.ops[t.op], t.comm));
      }
      return known > 0 && known * 50 >= expected * 49;
    };
    const bool enough = starts.size() >= kEnoughSteps;
    for (uint32_t start : starts) {
      const uint32_t next = std::exchange(end, start);
      if (next < program.size()) {
        const Op &a = rank.ops[ops[program[start]].op], &b = rank.ops[ops[program[next]].op];
        int64_t length = 0;
        if (!durations_only) {
          length = ops[program[next]].end_ns - ops[program[start]].end_ns;
        } else if (timing_.ranks[r].Shows(a.enter_ns) && timing_.ranks[r].Shows(b.enter_ns)) {
          length = b.enter_ns - a.enter_ns;
        }
        if (length > 0) lengths.push_back(length);
      }
      if (durations_only && !told(start, next)) continue;
      int64_t own = 0, in_operations = 0;
      least.push_back(0);
      for (uint32_t i = start; i < next; ++i) {
        own += std::max<int64_t>(gaps[program[i]], 0);
        least.back() += std::max<int64_t>(plain[program[i]].gap_ns, 0);
        const TimedOp& t = ops[program[i]];
        const int64_t duration = t.start_ns == 0 ? -1 : t.Duration();
        const int64_t value = durations_only ? duration : gaps[program[i]];
        if (enough) {
          pace.by_place.push_back(value);
        } else if (value >= 0) {
          by_kind[(static_cast<uint64_t>(class_of_comm[t.comm]) << 16) ^ static_cast<uint64_t>(rank.ops[t.op].kind)]
              .push_back(value);
        }
        if (duration < 0) continue;
        inside[class_of_comm[t.comm]] += duration;
        in_operations += duration;
      }
      pace.own_ns.push_back(durations_only ? -in_operations : own);
      pace.first_op.push_back(ops[program[start]].op);
    }
    const size_t steps = pace.own_ns.size();
    if (steps < (durations_only ? 1 : kLeastSteps)) {
      pace.own_ns.clear();
      pace.first_op.clear();
      pace.by_place.clear();
      return;
    }
    pace.step_ns = Median(std::move(lengths));
    if (durations_only) {
      for (int64_t& own : pace.own_ns) own += pace.step_ns;
    }
    pace.least_own_ns = Median(std::move(least));
    pace.places = period;
    if (enough) {
      pace.usual_own_ns = OwnOver(pace, 0, steps);
    } else {
      int64_t sum = 0;
      for (auto& [kind, values] : by_kind) {
        const auto count = static_cast<int64_t>(values.size());
        sum += Median(std::move(values)) * count / static_cast<int64_t>(steps);
      }
      // A few of many operations contain the waiting: medians of their durations would miss it.
      pace.usual_own_ns = durations_only ? Median(pace.own_ns) : sum;
    }
    pace.operations = period;
    for (auto& [klass, sum] : inside) pace.in_operations.push_back({klass, sum / static_cast<int64_t>(steps)});
    return;
  }
  if (durations_only) return;
  int64_t first = INT64_MAX;
  for (const TimedOp& t : ops) {
    if (t.start_ns == 0) continue;
    first = std::min(first, t.start_ns);
    inside[class_of_comm[t.comm]] += t.Duration();
  }
  pace.step_ns = std::max<int64_t>(ops.back().end_ns - first, 0);
  pace.operations = static_cast<uint32_t>(ops.size());
  for (auto& [klass, sum] : inside) pace.in_operations.push_back({klass, sum});
}

}  // namespace lockstep
