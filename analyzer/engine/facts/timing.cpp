#include "analyzer/engine/facts/timing.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/util/numbers.h"
#include "analyzer/util/parallel.h"

namespace lockstep {
namespace {

using ring::CallKind;

// Limit for all ranks together. Only the newest operations are used.
constexpr size_t kTimedOps = size_t{4} << 20;
constexpr size_t kLeastPerRank = 96, kMostPerRank = 8192;
constexpr int64_t kMillisecond = 1'000'000;

int64_t UsualLateness(const Rank& rank) {
  switch (rank.time_source) {
    case TimeSource::kEvents:
    case TimeSource::kProfiler: return 0;
    case TimeSource::kSampledMarks: return 10 * kMillisecond;
    case TimeSource::kFramework:
    case TimeSource::kFrameworkDurations: return 100 * kMillisecond;
    case TimeSource::kUnknown: break;
  }
  return (IsFramework(rank) ? 100 : 10) * kMillisecond;
}

}  // namespace

Timing::Timing(const Model& m) : model(m), ranks(m.bundle.ranks.size()) {
  NameClocks();
  const size_t limit = std::clamp(kTimedOps / std::max<size_t>(ranks.size(), 1), kLeastPerRank, kMostPerRank);
  Parallel(ranks.size(), [&](size_t r, size_t) { TakeRank(r, limit); });
  FindMeetings();
  FindHandovers();
}

void Timing::NameClocks() {
  std::map<std::pair<std::string, std::string>, uint32_t> known;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const Rank& rank = model.bundle.ranks[r];
    uint32_t clock = static_cast<uint32_t>(clock_names.size());
    if (!rank.host.empty()) clock = known.try_emplace({rank.host, rank.boot_id}, clock).first->second;
    if (clock == clock_names.size()) {
      clock_names.push_back(rank.host.empty() ? absl::StrCat("rank ", rank.rank) : rank.host);
      first_rank_of_clock.push_back(static_cast<uint32_t>(r));
    }
    ranks[r].clock = clock;
  }
}

void Timing::TakeRank(size_t rank_index, size_t limit) {
  const Rank& rank = model.bundle.ranks[rank_index];
  TimedRank& timed = ranks[rank_index];
  const int64_t late_by_ns = rank.time_uncertainty_ns;
  timed.late_by_ns = late_by_ns > 0 && late_by_ns < TimedRank::kReach ? late_by_ns : UsualLateness(rank);
  // In most jobs, most records contain no times. A sample shows whether that is the case.
  constexpr size_t kProbes = 64;
  if (rank.ops.size() > 4 * kProbes) {
    bool any = false;
    for (size_t k = 0; k < kProbes && !any; ++k)
      any = rank.ops[k * (rank.ops.size() - 1) / (kProbes - 1)].completed_ns != 0;
    if (!any) return;
  }
  // The records of one thread are in program order, with the newest at the end.
  size_t begin = 0;
  const bool one_thread = !rank.ops.empty() && rank.ops.front().thread == rank.ops.back().thread;
  if (one_thread && rank.ops.size() > 2 * limit) begin = rank.ops.size() - 2 * limit;
  std::vector<int64_t> completed;
  for (size_t i = begin; i < rank.ops.size(); ++i) {
    if (IsTime(rank.ops[i].completed_ns)) completed.push_back(rank.ops[i].completed_ns);
  }
  if (completed.empty()) return;
  timed.middle_ns = Median(std::move(completed));
  size_t started = 0, behind = 0, compared = 0;
  int64_t previous_end = 0;
  for (size_t i = begin; i < rank.ops.size(); ++i) {
    const Op& op = rank.ops[i];
    // If the records around an operation were overwritten, the time between operations is unknown.
    if (op.membership == kNoIndex || op.recent_only || !timed.Shows(op.completed_ns)) continue;
    if (!IsCollective(op.kind) && !IsPointToPoint(op.kind) && !op.batch_end) continue;
    TimedOp t{static_cast<uint32_t>(i), model.CommOf(rank, op), 0, op.completed_ns};
    if (timed.Shows(op.started_ns) && op.started_ns <= op.completed_ns) t.start_ns = op.started_ns;
    started += t.start_ns != 0;
    if (previous_end != 0 && timed.Shows(op.enter_ns)) {
      ++compared;
      behind += op.enter_ns >= previous_end;
    }
    previous_end = op.completed_ns;
    timed.ops.push_back(t);
  }
  if (started > 0) {
    timed.arrivals = Arrivals::kGpu;
  } else if (compared >= 8 && behind * 20 >= compared * 19) {
    timed.arrivals = Arrivals::kHost;
    for (TimedOp& t : timed.ops) {
      const int64_t enter = rank.ops[t.op].enter_ns;
      if (timed.Shows(enter) && enter <= t.end_ns) t.start_ns = enter;
    }
  }
  const auto by_end = [](const TimedOp& a, const TimedOp& b) {
    return std::tie(a.end_ns, a.op) < std::tie(b.end_ns, b.op);
  };
  if (timed.ops.size() > limit) {
    const auto keep = timed.ops.end() - static_cast<ptrdiff_t>(limit);
    std::nth_element(timed.ops.begin(), keep, timed.ops.end(), by_end);
    timed.ops.erase(timed.ops.begin(), keep);
  }
  if (!std::ranges::is_sorted(timed.ops, by_end)) std::ranges::sort(timed.ops, by_end);
  timed.ops.shrink_to_fit();
}

void Timing::FindMeetings() {
  struct Numbers {
    int64_t low = INT64_MAX, high = 0;
    uint32_t count = 0, begin = 0, end = 0;  // the range in `attendance` before meetings overwrite it
    bool dense() const { return static_cast<uint64_t>(high - low) <= 4 * uint64_t{count}; }
  };
  std::vector<Numbers> comms(model.comms.size());
  const auto each = [&](auto&& take) {
    for (uint32_t r = 0; r < ranks.size(); ++r) {
      const Rank& rank = model.bundle.ranks[r];
      for (uint32_t i = 0; i < ranks[r].ops.size(); ++i) {
        const TimedOp& t = ranks[r].ops[i];
        const Op& op = rank.ops[t.op];
        if (op.seq >= 0 && NeedsEveryMember(op.kind)) take(&comms[t.comm], op.seq, Attendance{r, i});
      }
    }
  };
  each([](Numbers* of, int64_t seq, Attendance) {
    of->low = std::min(of->low, seq);
    of->high = std::max(of->high, seq);
    ++of->count;
  });
  uint32_t total = 0;
  for (Numbers& of : comms) {
    of.begin = of.end = total;
    total += of.count;
  }
  // First sorted by communicator and rank. Then each communicator's entries are sorted by number, if possible by
  // counting, which is faster than comparing.
  attendance.resize(total);
  std::vector<uint32_t> numbers(total);
  each([&](Numbers* of, int64_t seq, Attendance who) {
    numbers[of->end] = of->dense() ? static_cast<uint32_t>(seq - of->low) : 0;
    attendance[of->end++] = who;
  });
  uint32_t kept = 0;  // entries of meetings so far, which overwrite the sorted input
  const auto meet = [&](uint32_t comm, int64_t seq, const Attendance* from, const Attendance* to) {
    Meeting meeting{comm, seq, kept, 0};
    for (; from != to; ++from) {
      // If a rank has a number twice (a coalesced batch), the last one counts.
      if (meeting.count == 0 || attendance[kept + meeting.count - 1].rank != from->rank) ++meeting.count;
      attendance[kept + meeting.count - 1] = *from;
    }
    if (meeting.count < 2) return;
    meetings.push_back(meeting);
    kept += meeting.count;
  };
  std::vector<Attendance> sorted;
  std::vector<uint32_t> ends;
  for (uint32_t c = 0; c < comms.size(); ++c) {
    const Numbers& of = comms[c];
    if (of.count < 2) continue;
    if (!of.dense()) {
      sorted.assign(attendance.begin() + of.begin, attendance.begin() + of.end);
      const auto seq = [&](const Attendance& a) { return OpOf(a).seq; };
      std::ranges::stable_sort(sorted, [&](const Attendance& a, const Attendance& b) { return seq(a) < seq(b); });
      const Attendance* const end = sorted.data() + sorted.size();
      for (const Attendance* it = sorted.data(); it != end;) {
        const Attendance* const first = it;
        while (it != end && seq(*it) == seq(*first)) ++it;
        meet(c, seq(*first), first, it);
      }
      continue;
    }
    ends.assign(static_cast<size_t>(of.high - of.low) + 2, 0);
    for (uint32_t i = of.begin; i < of.end; ++i) ++ends[numbers[i] + 1];
    for (size_t n = 1; n < ends.size(); ++n) ends[n] += ends[n - 1];
    sorted.resize(std::max<size_t>(sorted.size(), of.count));
    for (uint32_t i = of.begin; i < of.end; ++i) sorted[ends[numbers[i]]++] = attendance[i];
    uint32_t first = 0;
    for (size_t n = 0; n + 1 < ends.size(); ++n) {
      if (ends[n] != first) meet(c, of.low + static_cast<int64_t>(n), sorted.data() + first, sorted.data() + ends[n]);
      first = ends[n];
    }
  }
  attendance.resize(kept);
}

namespace {

// Groups of calls that exchange with more than one peer, by thread and number. They run as a unit, so their times do
// not apply to a single pair.
absl::flat_hash_set<std::pair<uint32_t, uint32_t>> GroupsOfSeveral(const Rank& rank) {
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, std::pair<uint32_t, int32_t>> with;  // membership and peer
  absl::flat_hash_set<std::pair<uint32_t, uint32_t>> several;
  for (const Op& op : rank.ops) {
    if (op.group == 0 || !IsPointToPoint(op.kind)) continue;
    const std::pair<uint32_t, int32_t> peer = {op.membership, op.root_or_peer};
    if (const auto [it, fresh] = with.try_emplace({op.thread, op.group}, peer); !fresh && it->second != peer)
      several.insert(it->first);
  }
  return several;
}

}  // namespace

void Timing::FindHandovers() {
  struct Side {
    uint32_t comm;
    int32_t sender, receiver;
    int64_t seq;
    bool receives;
    Attendance who;
  };
  std::vector<Side> sides;
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    const Rank& rank = model.bundle.ranks[r];
    if (IsFramework(rank)) continue;  // its numbers do not match sends with receives
    const auto several = GroupsOfSeveral(rank);
    for (uint32_t i = 0; i < ranks[r].ops.size(); ++i) {
      const TimedOp& t = ranks[r].ops[i];
      const Op& op = rank.ops[t.op];
      if (!IsPointToPoint(op.kind) || op.seq < 0 || t.start_ns == 0) continue;
      const int32_t own = rank.memberships[op.membership].member_rank;
      if (own < 0 || op.root_or_peer < 0 || (op.group != 0 && several.contains({op.thread, op.group}))) continue;
      const bool receives = op.kind == CallKind::kRecv;
      sides.push_back(
          {t.comm, receives ? op.root_or_peer : own, receives ? own : op.root_or_peer, op.seq, receives, {r, i}});
    }
  }
  const auto key = [](const Side& s) {
    return std::tuple(s.comm, s.sender, s.receiver, s.seq, s.receives, s.who.rank, s.who.timed);
  };
  std::ranges::sort(sides, [&](const Side& a, const Side& b) { return key(a) < key(b); });
  for (size_t i = 0; i + 1 < sides.size(); ++i) {
    const Side &a = sides[i], &b = sides[i + 1];
    if (a.comm != b.comm || a.sender != b.sender || a.receiver != b.receiver || a.seq != b.seq || a.receives ||
        !b.receives)
      continue;
    handovers.push_back({a.comm, a.seq, a.who, b.who});
  }
}

std::string ClockText(const Rank& rank, const TimedRank& timed) {
  if (timed.arrivals == Arrivals::kNone) return "";
  if (timed.arrivals == Arrivals::kHost) return "host";
  switch (rank.time_source) {
    case TimeSource::kSampledMarks: return "gpu marks";
    case TimeSource::kEvents: return "events";
    case TimeSource::kProfiler: return "profiler";
    case TimeSource::kFramework:
    case TimeSource::kFrameworkDurations: return "framework";
    case TimeSource::kUnknown: break;
  }
  return IsFramework(rank) ? "framework" : "gpu marks";
}

}  // namespace lockstep
