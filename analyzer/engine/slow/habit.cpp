#include "analyzer/engine/slow/habit.h"
#include "analyzer/model/call_kinds.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace lockstep {
namespace {

// Fewer meetings have no meaningful median.
constexpr uint32_t kLeastMeetings = 12;
// Meetings of a rank from which chance is computed, in order; and ranks that it is compared with.
constexpr size_t kMostJudged = 128, kMostOthers = 4096;
// From this many communicators of a class on, what all members at one place do is by design.
constexpr size_t kLeastSiblings = 3;

int64_t MiddleOf(std::vector<int64_t>* values) {
  if (values->empty()) return 0;
  const auto middle = values->begin() + static_cast<ptrdiff_t>(values->size() / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

// The lower bound of the latest quarter. Operations often follow each other without work between them, so half of the
// meetings may show nothing. Occasional delays do not fill a quarter.
int64_t OfAQuarter(std::vector<int64_t>* values) {
  const auto at = values->begin() + static_cast<ptrdiff_t>(values->size() * 3 / 4);
  std::nth_element(values->begin(), at, values->end());
  return *at;
}

// For each timed operation, returns whether the rank's previous call was on the same communicator.
std::vector<bool> FollowsItsOwn(const Timing& timing, const Paces& paces, uint32_t r) {
  const Rank& rank = timing.model.bundle.ranks[r];
  const auto& ops = timing.ranks[r].ops;
  std::vector<bool> follows(ops.size());
  const std::vector<uint32_t>& program = paces.programs[r];
  for (size_t i = 1; i < program.size(); ++i) {
    const TimedOp &before = ops[program[i - 1]], &here = ops[program[i]];
    if (before.comm != here.comm || before.start_ns == 0) continue;
    const Op &was = rank.ops[before.op], &is = rank.ops[here.op];
    follows[program[i]] = was.seq >= 0 && is.seq >= 0 && is.seq - was.seq == 1 && NeedsEveryMember(was.kind);
  }
  return follows;
}

// Number of meetings to which a rank came later than `bar`, and how often such a meeting followed one that was on time.
struct Runs {
  double meetings = 0, late = 0, runs = 0;
};

Runs RunsOver(const std::vector<int64_t>& order, int64_t bar) {
  Runs out;
  out.meetings = static_cast<double>(order.size());
  bool before = false;
  for (int64_t ns : order) {
    const bool late = ns > bar;
    out.late += late;
    out.runs += late && !before;
    before = late;
  }
  return out;
}

double LogChoose(double of, double some) {
  return std::lgamma(of + 1) - std::lgamma(some + 1) - std::lgamma(of - some + 1);
}

}  // namespace

double ChanceOfRuns(double meetings, double late, double runs, double begins, double stays) {
  if (runs < 1) return 1;
  // The number of ways to choose where the runs of late operations begin, and how many each run contains.
  const double log = LogChoose(meetings, runs) + LogChoose(late - 1, runs - 1) + runs * std::log(begins) +
                     (late - runs) * std::log(stays);
  return std::exp(std::min(log, 0.0));
}

std::vector<Habit> FindHabits(const Timing& timing, const Paces& paces) {
  const size_t count = timing.ranks.size();
  std::vector<Habit> habits(count);
  std::vector<std::vector<bool>> follows(count);
  for (uint32_t r = 0; r < count; ++r) follows[r] = FollowsItsOwn(timing, paces, r);

  struct Seen {
    uint32_t meetings = 0;
    int64_t later_ns = 0, waited_ns = 0;
    std::vector<int64_t> order;  // the first lateness values, in order
  };
  std::map<std::pair<uint32_t, size_t>, std::vector<int64_t>> by_place;  // class and member: the usual values of its
                                                                         // ranks
  struct Found {
    uint32_t rank, comm;
    size_t place;
    Seen seen;
  };
  std::vector<Found> found;
  std::vector<std::vector<int64_t>> later;  // by member of the communicator being checked
  for (size_t begin = 0; begin < timing.meetings.size();) {
    const uint32_t comm = timing.meetings[begin].comm;
    const auto& members = timing.model.comms[comm].members;
    later.assign(members.size(), {});
    size_t end = begin;
    for (; end < timing.meetings.size() && timing.meetings[end].comm == comm; ++end) {
      const Meeting& meeting = timing.meetings[end];
      int64_t longest = -1;
      size_t measured = 0;
      for (uint32_t a = 0; a < meeting.count; ++a) {
        const Attendance& who = timing.attendance[meeting.first + a];
        const TimedOp& t = timing.At(who);
        if (t.start_ns == 0 || !follows[who.rank][who.timed]) continue;
        ++measured;
        longest = std::max(longest, t.Duration());
      }
      // If only some members are known, the first of them to arrive may itself be late.
      if (measured < 2 || measured * 4 < members.size() * 3 || longest > kLongestOperationNs) continue;
      for (uint32_t a = 0; a < meeting.count; ++a) {
        const Attendance& who = timing.attendance[meeting.first + a];
        const TimedOp& t = timing.At(who);
        if (t.start_ns == 0 || !follows[who.rank][who.timed]) continue;
        const Rank& rank = timing.model.bundle.ranks[who.rank];
        const int32_t place = rank.memberships[rank.ops[t.op].membership].member_rank;
        if (place >= 0 && static_cast<size_t>(place) < later.size())
          later[static_cast<size_t>(place)].push_back(longest - t.Duration());
      }
    }
    begin = end;
    for (size_t place = 0; place < later.size(); ++place) {
      std::vector<int64_t>& list = later[place];
      if (list.size() < kLeastMeetings || members[place].rank_index < 0) continue;
      Seen seen;
      seen.meetings = static_cast<uint32_t>(list.size());
      seen.order.assign(list.begin(), list.begin() + static_cast<ptrdiff_t>(std::min(list.size(), kMostJudged)));
      seen.later_ns = OfAQuarter(&list);
      for (int64_t ns : list) seen.waited_ns += std::min(ns, 2 * seen.later_ns);
      by_place[{paces.class_of_comm[comm], place}].push_back(seen.later_ns);
      found.push_back({static_cast<uint32_t>(members[place].rank_index), comm, place, std::move(seen)});
    }
  }

  std::map<uint32_t, std::vector<int64_t>> by_class;
  std::map<uint32_t, std::vector<const Found*>> of_class;
  for (const Found& f : found) {
    by_class[paces.class_of_comm[f.comm]].push_back(f.seen.later_ns);
    of_class[paces.class_of_comm[f.comm]].push_back(&f);
  }
  // One delay makes several consecutive meetings late, until the queue catches up. The estimate of the probability
  // counts how often lateness begins with the other ranks of the class and how often it continues. One is added to each
  // count, because none in a small sample does not mean never. Ranks that are late nearly always are excluded, because
  // they may be equally slow.
  const auto by_chance = [&](const Found& f) {
    const int64_t bar = f.seen.later_ns / 2;
    const std::vector<const Found*>& others = of_class[paces.class_of_comm[f.comm]];
    double begins = 1, on_time = 2, stays = 1, late = 2;
    size_t asked = 0, taken = 0;
    for (size_t i = 0; i < others.size(); i += 1 + others.size() / kMostOthers) {
      if (others[i] == &f) continue;
      const Runs runs = RunsOver(others[i]->seen.order, bar);
      ++asked;
      if (runs.late * 4 >= runs.meetings * 3) continue;
      ++taken;
      begins += runs.runs;
      on_time += runs.meetings - runs.late + runs.runs;
      stays += runs.late - runs.runs;
      late += runs.late;
    }
    if (taken * 2 < asked) return 1.0;
    const Runs own = RunsOver(f.seen.order, bar);
    return ChanceOfRuns(own.meetings, own.late, own.runs, begins / on_time, stays / late);
  };
  std::map<uint32_t, int64_t> usual;
  for (auto& [klass, list] : by_class) usual[klass] = MiddleOf(&list);
  std::map<std::pair<uint32_t, size_t>, int64_t> by_design;
  for (auto& [key, list] : by_place) {
    if (list.size() >= kLeastSiblings) by_design[key] = MiddleOf(&list);
  }
  for (const Found& f : found) {
    Habit& habit = habits[f.rank];
    if (habit.comm != kNoIndex && habit.meetings >= f.seen.meetings) continue;
    const uint32_t klass = paces.class_of_comm[f.comm];
    habit.comm = f.comm;
    habit.meetings = f.seen.meetings;
    const auto it = by_design.find({klass, f.place});
    habit.later_ns = std::max<int64_t>(f.seen.later_ns - (it == by_design.end() ? 0 : it->second), 0);
    habit.usual_ns = usual[klass];
    habit.waited_ns = f.seen.waited_ns;
    habit.by_chance =
        habit.later_ns > kClearlyLater * habit.usual_ns ? static_cast<double>(found.size()) * by_chance(f) : 1;
  }
  for (uint32_t r = 0; r < count; ++r) {
    if (habits[r].comm == kNoIndex) continue;
    const Rank& rank = timing.model.bundle.ranks[r];
    int64_t inside = 0, first = INT64_MAX, last = 0;
    for (const TimedOp& t : timing.ranks[r].ops) {
      if (t.start_ns == 0) continue;
      inside += std::min(t.Duration(), kLongestOperationNs);
      const int64_t entered = rank.ops[t.op].enter_ns;
      if (!timing.ranks[r].Shows(entered)) continue;
      first = std::min(first, entered);
      last = std::max(last, entered);
    }
    habits[r].span_ns = std::max(inside, last - std::min(first, last));
  }
  return habits;
}

}  // namespace lockstep
