#include "analyzer/engine/slow/pace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "analyzer/util/numbers.h"
#include "analyzer/util/parallel.h"

namespace lockstep {
namespace {

using ring::IsPointToPoint;

constexpr size_t kMostSteps = 64;
constexpr size_t kLeastSteps = 3;
// If a longer wait shortens a gap by at least this share of the wait, the gap depends on the wait. If times are too
// coarse to show how waits vary, their errors alone make that share one half.
constexpr double kFollows = 0.25;

bool DurationsOnly(const Rank& rank) { return rank.time_source == TimeSource::kFrameworkDurations; }

// One kind of time, for each step of a rank.
struct Series {
  const std::vector<int64_t>* numbers;
  std::vector<int64_t>* ns;
};

// Returns the operations whose start is known, in the order in which they started.
std::vector<const TimedOp*> ByStart(const std::vector<TimedOp>& ops) {
  std::vector<const TimedOp*> order;
  for (const TimedOp& t : ops) {
    if (t.start_ns != 0) order.push_back(&t);
  }
  std::sort(order.begin(), order.end(), [](const TimedOp* a, const TimedOp* b) {
    return std::tie(a->start_ns, a->op) < std::tie(b->start_ns, b->op);
  });
  return order;
}

// Subtracts from each rank's time in a step the quantile `q` of all ranks' times in the same step.
void SubtractQuantile(const std::vector<Series>& ranks, double q) {
  std::map<int64_t, std::vector<int64_t>> by_number;
  for (const Series& of : ranks) {
    for (size_t i = 0; i < of.ns->size(); ++i) by_number[(*of.numbers)[i]].push_back((*of.ns)[i]);
  }
  std::map<int64_t, int64_t> usual;
  for (auto& [number, list] : by_number) usual[number] = Quantile(&list, q);
  for (const Series& of : ranks) {
    for (size_t i = 0; i < of.ns->size(); ++i) (*of.ns)[i] -= usual[(*of.numbers)[i]];
  }
}

}  // namespace

Paces::Paces(const Timing& timing) : ranks(timing.ranks.size()), timing_(timing) {
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
  programs.resize(ranks.size());
  repeats_.resize(ranks.size());
  Parallel(ranks.size(), [&](size_t r, size_t) {
    OrderProgram(static_cast<uint32_t>(r));
    if (ranks[r].role != kNoIndex) repeats_[r] = FindRepeat(static_cast<uint32_t>(r));
  });
  beside_.resize(roles.size());
  Parallel(roles.size(), [&](size_t role, size_t) {
    NumberSteps(roles[role]);
    beside_[role] = WorkBesideWaiting(roles[role]);
  });
  Parallel(ranks.size(), [&](size_t r, size_t) {
    if (ranks[r].role != kNoIndex) Measure(static_cast<uint32_t>(r));
  });
  Parallel(roles.size(), [&](size_t role, size_t) { CompareSteps(roles[role]); });
  std::vector<int64_t> steps;
  for (const RankPace& pace : ranks) {
    if (!pace.own_ns.empty()) steps.push_back(pace.step_ns);
  }
  whole_steps = !steps.empty();
  step_ns = Median(std::move(steps));
}

uint64_t Paces::SortOf(const Op& op, uint32_t comm) const {
  return (static_cast<uint64_t>(KindOf(comm)) << 16) | (static_cast<uint64_t>(op.kind) << 2) |
         (uint64_t{op.in_batch} << 1) | uint64_t{op.batch_end};
}

// If operations on other communicators often begin during an operation, that operation does not block the rank's own
// work.
void Paces::FindOverlap() {
  overlapped_.resize(2 * timing_.model.kinds.size());
  std::vector<uint32_t> all(overlapped_.size()), crossed(overlapped_.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    const Rank& rank = timing_.model.bundle.ranks[r];
    if (DurationsOnly(rank)) continue;
    const std::vector<const TimedOp*> order = ByStart(timing_.ranks[r].ops);
    for (size_t i = 0; i < order.size(); ++i) {
      const TimedOp& t = *order[i];
      const size_t key = OverlapOf(rank.ops[t.op], t.comm);
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
      const bool pipeline = model.comms[m.comm].used_for_p2p && model.kinds[KindOf(m.comm)].size() > 1;
      role.push_back({KindOf(m.comm), pipeline ? m.member_rank : -1});
    }
    std::sort(role.begin(), role.end());
    // Own time that was computed as the remainder of a step is not compared with measured own time.
    role.push_back({kNoIndex, DurationsOnly(rank)});
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
  // For each operation, the thread's previous call.
  std::vector<const Op*> before(rank.ops.size());
  std::map<uint32_t, const Op*> last;
  for (size_t i = 0; i < rank.ops.size(); ++i) {
    const Op& op = rank.ops[i];
    if (op.after_gap) last.clear();
    if (!op.recent_only && timed.Shows(op.enter_ns)) before[i] = std::exchange(last[op.thread], &op);
  }
  const auto overlaps = [&](uint32_t i) { return overlapped_[OverlapOf(rank.ops[ops[i].op], ops[i].comm)]; };
  int64_t held_until = 0;  // end of the operations that block the rank's work
  size_t by_end = 0;       // operations that ended earlier, of any kind; ops is sorted by end
  int64_t beside_until = 0;
  for (const TimedOp* at : ByStart(ops)) {
    const TimedOp& t = *at;
    const auto i = static_cast<uint32_t>(at - ops.data());
    for (; by_end < ops.size() && ops[by_end].end_ns <= t.start_ns; ++by_end) {
      if (overlaps(static_cast<uint32_t>(by_end))) beside_until = ops[by_end].end_ns;
    }
    if (overlaps(i)) continue;
    const Op& op = rank.ops[t.op];
    // The work in between may have waited for operations that ended in parallel. In that case, only the remaining time
    // is the rank's own.
    const int64_t from = std::max(held_until, std::min(beside_until, t.start_ns));
    if (held_until != 0 && t.start_ns >= from && !op.after_gap) {
      Between& between = betweens[i];
      between.gap_ns = t.start_ns - from;
      const Op* const call = before[t.op];
      if (call != nullptr && call->membership != kNoIndex) {
        between.place = SortOf(*call, timing_.model.CommOf(rank, *call)) << 32 | SortOf(op, t.comm);
        const int64_t returned = timed.Shows(call->return_ns) ? call->return_ns : call->enter_ns;
        // If most of the gap is after the call, it is GPU work.
        const bool gpu = t.start_ns - std::max(op.enter_ns, from) > timed.late_by_ns + between.gap_ns / 2;
        if (op.enter_ns > returned && !gpu) between.host_ns = op.enter_ns - returned;
        between.ahead = op.enter_ns + timed.late_by_ns < from;
      }
    }
    held_until = std::max(held_until, t.end_ns);
  }
  return betweens;
}

// Returns, for each place in the program, whether the CPU threads work while their operations wait. If they do, a
// longer wait leaves a shorter gap after it. If they are blocked as well, the gap does not depend on the wait.
std::map<uint64_t, Paces::Beside> Paces::WorkBesideWaiting(const std::vector<uint32_t>& role) const {
  struct Values {
    std::vector<int64_t> gaps;
    std::vector<int64_t> gaps_behind, waits;  // samples in which the thread may have been blocked
  };
  const auto mean = [](const std::vector<int64_t>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(std::max<size_t>(values.size(), 1));
  };
  std::map<uint64_t, Beside> places;
  std::map<uint64_t, std::pair<double, double>> shared;  // variance of waits, covariance with gaps; not normalized
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

// Returns the shortest pattern of calls that repeats at the end of the rank's record and uses all of its communicators.
// Sizes distinguish calls that are otherwise equal, unless the sizes change from step to step.
Paces::Repeat Paces::FindRepeat(uint32_t r) const {
  const Rank& rank = timing_.model.bundle.ranks[r];
  const auto& ops = timing_.ranks[r].ops;
  const std::vector<uint32_t>& program = programs[r];
  const size_t n = program.size();
  std::vector<bool> used(rank.memberships.size());
  for (const TimedOp& t : ops) used[rank.ops[t.op].membership] = true;
  const auto distinct = std::count(used.begin(), used.end(), true);
  using Sign = std::tuple<uint32_t, ring::CallKind, int32_t, int64_t, int64_t, int64_t>;
  std::vector<Sign> signs(n);
  std::vector<uint32_t> border(n + 1, 0);
  for (const bool sizes : {true, false}) {
    for (size_t i = 0; i < n; ++i) {
      const Op& op = rank.ops[ops[program[n - 1 - i]].op];
      signs[i] = {op.membership, op.kind, op.root_or_peer, -1, -1, -1};
      if (sizes) signs[i] = {op.membership, op.kind, op.root_or_peer, op.count, op.input_elements, op.output_elements};
    }
    for (size_t i = 1, k = 0; i < n; ++i) {
      while (k > 0 && signs[i] != signs[k]) k = border[k];
      if (signs[i] == signs[k]) ++k;
      border[i + 1] = static_cast<uint32_t>(k);
    }
    for (size_t length = n; length >= 2 * kLeastSteps; --length) {
      const size_t period = length - border[length];
      if (period * kLeastSteps > length) continue;
      std::vector<bool> here(rank.memberships.size());
      for (size_t i = 0; i < period; ++i) here[std::get<0>(signs[i])] = true;
      // A communicator that is used only at the start of a job (a barrier, a first exchange) belongs to no step.
      if (std::count(here.begin(), here.end(), true) < distinct && length * 2 < n) break;
      return {static_cast<uint32_t>(n - length), static_cast<uint32_t>(period)};
    }
  }
  return {};
}

void Paces::NumberSteps(const std::vector<uint32_t>& role) {
  const auto op_at = [&](uint32_t r, size_t i) -> const Op& {
    return timing_.model.bundle.ranks[r].ops[timing_.ranks[r].ops[programs[r][i]].op];
  };
  const auto class_at = [&](uint32_t r, size_t i) { return KindOf(timing_.ranks[r].ops[programs[r][i]].comm); };
  // Finds the class of communicators for numbering: the largest of the pattern, because most ranks share its
  // collectives.
  uint32_t shared = kNoIndex;
  size_t largest = 0;
  for (uint32_t r : role) {
    const size_t n = programs[r].size();
    for (size_t i = n - repeats_[r].period; i < n; ++i) {
      const size_t size = timing_.model.comms[timing_.ranks[r].ops[programs[r][i]].comm].members.size();
      if (!ring::IsCollective(op_at(r, i).kind) || op_at(r, i).seq < 0 || size <= largest) continue;
      largest = size;
      shared = class_at(r, i);
    }
    if (shared != kNoIndex) break;
  }
  // Where in a step a record ends: operations per step, numbers per step, the last number, and the operations after it.
  using End = std::tuple<uint32_t, int64_t, int64_t, size_t>;
  const auto shares = [&](uint32_t r, size_t i) {
    return class_at(r, i) == shared && ring::IsCollective(op_at(r, i).kind) && op_at(r, i).seq >= 0;
  };
  std::map<End, size_t> votes;
  std::vector<std::pair<uint32_t, int64_t>> numbers;  // rank whose pattern has such collectives; how many per step
  for (uint32_t r : role) {
    const Repeat& repeat = repeats_[r];
    const size_t n = programs[r].size();
    for (size_t behind = 0; behind < repeat.period; ++behind) {
      const size_t i = n - 1 - behind;
      if (!shares(r, i)) continue;
      if (!shares(r, i - repeat.period)) break;
      const int64_t seq = op_at(r, i).seq, count = seq - op_at(r, i - repeat.period).seq;
      if (count <= 0) break;
      numbers.push_back({r, count});
      ++votes[{repeat.period, count, seq % count, behind}];
      break;
    }
  }
  if (votes.empty()) return;
  const auto [period, count, last, behind] =
      std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      })->first;
  for (const auto& [r, own_count] : numbers) {
    Repeat& repeat = repeats_[r];
    if (repeat.period != period || own_count != count) continue;
    for (size_t end = programs[r].size(); end > repeat.begin + behind; --end) {
      const size_t i = end - 1 - behind;
      if (!shares(r, i) || op_at(r, i).seq % count != last) continue;
      repeat.end = static_cast<uint32_t>(end);
      repeat.number = op_at(r, i).seq / count;
      break;
    }
  }
}

void Paces::OrderProgram(uint32_t r) {
  const Rank& rank = timing_.model.bundle.ranks[r];
  const auto& ops = timing_.ranks[r].ops;
  std::vector<uint32_t>& program = programs[r];
  program.resize(ops.size());
  std::iota(program.begin(), program.end(), 0u);
  const auto earlier = [&](uint32_t a, uint32_t b) {
    const Op &x = rank.ops[ops[a].op], &y = rank.ops[ops[b].op];
    if (x.record_id >= 0 && y.record_id >= 0 && x.record_id != y.record_id) return x.record_id < y.record_id;
    if (x.thread != y.thread && x.enter_ns != y.enter_ns) return x.enter_ns < y.enter_ns;
    return ops[a].op < ops[b].op;
  };
  // The operations usually ended in this order. The sort is stable, because hostile records may have contradictory
  // clocks and numbers.
  if (!std::is_sorted(program.begin(), program.end(), earlier))
    std::stable_sort(program.begin(), program.end(), earlier);
}

void Paces::Measure(uint32_t r) {
  const Rank& rank = timing_.model.bundle.ranks[r];
  const auto& ops = timing_.ranks[r].ops;
  RankPace& pace = ranks[r];
  const bool durations_only = DurationsOnly(rank);
  const std::vector<uint32_t>& program = programs[r];
  const Repeat& repeat = repeats_[r];
  const std::vector<int64_t> gaps = durations_only ? std::vector<int64_t>(ops.size(), -1) : Gaps(r);
  const std::vector<Between> plain = durations_only ? std::vector<Between>(ops.size()) : Betweens(r);
  std::map<uint32_t, std::vector<int64_t>> inside;
  pace.durations_only = durations_only;
  std::vector<uint32_t> starts;  // newest first
  for (uint32_t end = repeat.end; end >= repeat.begin + repeat.period && starts.size() < kMostSteps && end > 0;) {
    end -= repeat.period;
    // What preceded the first record is unknown, so the step that begins with it counts only if there are too few
    // others.
    if (end > 0 || starts.size() < kLeastSteps) starts.push_back(end);
  }
  const size_t least_steps = durations_only ? 1 : kLeastSteps;
  if (starts.size() >= least_steps) {
    std::vector<int64_t> lengths;
    std::vector<int64_t> least;
    uint32_t end = repeat.end;
    // The part of a step outside operations is the rank's own work only if almost all operation times are known. A
    // watchdog that has not checked since, or was delayed, has recorded no times for the last operations.
    const auto told = [&](uint32_t from, uint32_t to) {
      size_t known = 0, expected = 0;
      for (uint32_t i = from; i < to; ++i) {
        const TimedOp& t = ops[program[i]];
        known += t.start_ns != 0;
        expected += measured_.contains(SortOf(rank.ops[t.op], t.comm));
      }
      return known > 0 && known * 50 >= expected * 49;
    };
    int64_t number = repeat.number + 1;
    for (uint32_t start : starts) {
      const uint32_t next = std::exchange(end, start);
      --number;
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
        if (duration < 0) continue;
        std::vector<int64_t>& in_class = inside[KindOf(t.comm)];
        in_class.resize(pace.own_ns.size() + 1);
        in_class.back() += duration;
        in_operations += duration;
      }
      pace.own_ns.push_back(durations_only ? -in_operations : own);
      pace.first_op.push_back(ops[program[start]].op);
      pace.numbers.push_back(number);
    }
    const size_t steps = pace.own_ns.size();
    if (steps < least_steps) {
      pace.own_ns.clear();
      pace.first_op.clear();
      pace.numbers.clear();
      return;
    }
    pace.step_ns = Median(std::move(lengths));
    pace.least_own_ns = Median(std::move(least));
    pace.operations = repeat.period;
    for (auto& [klass, in_class] : inside) {
      in_class.resize(steps);
      pace.waits_ns.push_back({klass, std::move(in_class)});
    }
    return;
  }
  if (durations_only) return;
  int64_t first = INT64_MAX;
  for (const TimedOp& t : ops) {
    if (t.start_ns != 0) first = std::min(first, t.start_ns);
  }
  pace.step_ns = std::max<int64_t>(ops.back().end_ns - first, 0);
  pace.operations = static_cast<uint32_t>(ops.size());
}

// A step counts if at least half of the ranks that have steps recorded it. If only durations are known, own work is the
// rest of a step, whose length is the same for all ranks of the role.
void Paces::CompareSteps(const std::vector<uint32_t>& role) {
  std::map<int64_t, size_t> recorded;  // indexed by number
  std::vector<int64_t> lengths;
  for (uint32_t r : role) {
    for (const int64_t number : ranks[r].numbers) ++recorded[number];
    if (!ranks[r].numbers.empty()) lengths.push_back(ranks[r].step_ns);
  }
  const size_t measured = lengths.size();
  const int64_t length = Median(std::move(lengths));
  std::map<uint32_t, std::vector<Series>> waits;  // indexed by class
  std::vector<Series> own;
  for (uint32_t r : role) {
    RankPace& pace = ranks[r];
    const std::vector<int64_t> numbers = pace.numbers;
    const auto keep = [&](auto* list) {
      size_t kept = 0;
      for (size_t i = 0; i < numbers.size(); ++i) {
        if (recorded[numbers[i]] * 2 >= measured) (*list)[kept++] = (*list)[i];
      }
      list->resize(kept);
    };
    keep(&pace.own_ns);
    keep(&pace.first_op);
    keep(&pace.numbers);
    for (auto& [klass, in_class] : pace.waits_ns) {
      keep(&in_class);
      waits[klass].push_back({&pace.numbers, &in_class});
    }
    for (int64_t& ns : pace.own_ns) ns += pace.durations_only ? length : 0;
    pace.beyond_ns = pace.own_ns;
    own.push_back({&pace.numbers, &pace.beyond_ns});
  }
  for (const auto& [klass, of_class] : waits) SubtractQuantile(of_class, 0.5);
  // The faster quarter of the ranks shows how long the work takes. With only two ranks, the faster one does.
  SubtractQuantile(own, 0.25);
  // If work varies, the fastest rank of a step is faster than any rank usually is.
  std::vector<int64_t> usual;
  for (uint32_t r : role) {
    if (!ranks[r].beyond_ns.empty()) usual.push_back(Usual(ranks[r].beyond_ns));
  }
  const int64_t fast = Quantile(&usual, 0.25);
  for (uint32_t r : role) {
    for (int64_t& ns : ranks[r].beyond_ns) ns -= fast;
  }
}

}  // namespace lockstep
