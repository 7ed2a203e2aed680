#include "analyzer/engine/slow/habit.h"
#include "analyzer/model/call_kinds.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace lockstep {
namespace {

// With fewer meetings, a percentile means little.
constexpr uint32_t kLeastMeetings = 12;
// Maximum number of a rank's meetings from which chance is computed, and of ranks that it is compared with.
constexpr size_t kMostJudged = 128, kMostOthers = 4096;
// If a class has at least this many communicators, what all members at one position do is intended.
constexpr size_t kLeastSiblings = 3;

// Returns the 75th percentile. Operations often follow each other without work in between, so half of the meetings may
// show no lateness at all. Occasional delays affect less than a quarter of the meetings.
int64_t OfAQuarter(std::vector<int64_t>* values) {
  const auto at = values->begin() + static_cast<ptrdiff_t>(values->size() * 3 / 4);
  std::nth_element(values->begin(), at, values->end());
  return *at;
}

// Returns, for each timed operation, whether the rank's previous call was the preceding collective of the same
// communicator.
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

// The number of meetings at which a rank was later than `bar`, and the number of runs that these form.
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

// How late a rank arrived at the meetings of one communicator.
struct MemberLateness {
  uint32_t rank = 0, comm = 0;
  std::pair<uint32_t, size_t> place;  // class of the communicator, and member rank
  uint32_t meetings = 0;
  int64_t later_ns = 0, waited_ns = 0;
  std::vector<int64_t> order;  // the first values, in chronological order
};

class HabitFinder {
 public:
  HabitFinder(const Timing& timing, const Paces& paces) : timing_(timing), paces_(paces) {
    for (uint32_t r = 0; r < timing.ranks.size(); ++r) follows_.push_back(FollowsItsOwn(timing, paces, r));
    for (size_t begin = 0; begin < timing.meetings.size();) begin = Measure(begin);
    for (const MemberLateness& l : found_) of_class_[l.place.first].push_back(&l);
  }

  std::vector<Habit> Find() const {
    const std::map<uint32_t, int64_t> usual = UsualOfClasses();
    const std::map<std::pair<uint32_t, size_t>, int64_t> by_design = UsualOfPlaces();
    std::vector<Habit> habits(timing_.ranks.size());
    for (const MemberLateness& l : found_) {
      Habit& habit = habits[l.rank];
      if (habit.comm != kNoIndex && habit.meetings >= l.meetings) continue;
      habit.comm = l.comm;
      habit.meetings = l.meetings;
      const auto it = by_design.find(l.place);
      habit.later_ns = std::max<int64_t>(l.later_ns - (it == by_design.end() ? 0 : it->second), 0);
      habit.usual_ns = usual.at(l.place.first);
      habit.waited_ns = l.waited_ns;
      habit.by_chance =
          habit.later_ns > kClearlyLater * habit.usual_ns ? static_cast<double>(found_.size()) * ChanceOf(l) : 1;
    }
    for (uint32_t r = 0; r < habits.size(); ++r) {
      if (habits[r].comm != kNoIndex) habits[r].span_ns = SpanOf(r);
    }
    return habits;
  }

 private:
  // Returns the rank's operation in a meeting, if the operation's time shows when the rank arrived; otherwise null.
  const TimedOp* Coming(const Attendance& who) const {
    const TimedOp& t = timing_.At(who);
    return t.start_ns == 0 || !follows_[who.rank][who.timed] ? nullptr : &t;
  }

  // Adds, for each member, how much later than the first member it arrived at the meeting.
  void AddMeeting(const Meeting& meeting, std::vector<std::vector<int64_t>>* later) const {
    int64_t longest = -1;
    size_t measured = 0;
    for (const Attendance& who : timing_.Of(meeting)) {
      const TimedOp* t = Coming(who);
      if (t == nullptr) continue;
      ++measured;
      longest = std::max(longest, t->Duration());
    }
    // If only some members were measured, the first of those to arrive may itself be late.
    if (measured < 2 || measured * 4 < later->size() * 3 || longest > kLongestOperationNs) return;
    for (const Attendance& who : timing_.Of(meeting)) {
      const TimedOp* t = Coming(who);
      if (t == nullptr) continue;
      const Rank& rank = timing_.model.bundle.ranks[who.rank];
      const int32_t place = rank.memberships[rank.ops[t->op].membership].member_rank;
      if (place >= 0 && static_cast<size_t>(place) < later->size())
        (*later)[static_cast<size_t>(place)].push_back(longest - t->Duration());
    }
  }

  // Measures the members of the communicator whose meetings start at `begin`. Returns where the next communicator's
  // meetings start.
  size_t Measure(size_t begin) {
    const uint32_t comm = timing_.meetings[begin].comm;
    const auto& members = timing_.model.comms[comm].members;
    std::vector<std::vector<int64_t>> later(members.size());
    size_t end = begin;
    for (; end < timing_.meetings.size() && timing_.meetings[end].comm == comm; ++end)
      AddMeeting(timing_.meetings[end], &later);
    for (size_t place = 0; place < later.size(); ++place) {
      std::vector<int64_t>& list = later[place];
      if (list.size() < kLeastMeetings || members[place].rank_index < 0) continue;
      MemberLateness l;
      l.rank = static_cast<uint32_t>(members[place].rank_index);
      l.comm = comm;
      l.place = {timing_.model.comms[comm].kind, place};
      l.meetings = static_cast<uint32_t>(list.size());
      l.order.assign(list.begin(), list.begin() + static_cast<ptrdiff_t>(std::min(list.size(), kMostJudged)));
      l.later_ns = OfAQuarter(&list);
      for (const int64_t ns : list) l.waited_ns += std::min(ns, 2 * l.later_ns);
      found_.push_back(std::move(l));
    }
    return end;
  }

  std::map<uint32_t, int64_t> UsualOfClasses() const {
    std::map<uint32_t, int64_t> usual;
    for (const auto& [klass, all] : of_class_) {
      std::vector<int64_t> values;
      for (const MemberLateness* l : all) values.push_back(l->later_ns);
      usual[klass] = Median(std::move(values));
    }
    return usual;
  }

  // Returns the usual lateness of a member, over all communicators of its class, if there are enough of them.
  std::map<std::pair<uint32_t, size_t>, int64_t> UsualOfPlaces() const {
    std::map<std::pair<uint32_t, size_t>, std::vector<int64_t>> values;
    for (const MemberLateness& l : found_) values[l.place].push_back(l.later_ns);
    std::map<std::pair<uint32_t, size_t>, int64_t> usual;
    for (auto& [place, list] : values) {
      if (list.size() >= kLeastSiblings) usual[place] = Median(std::move(list));
    }
    return usual;
  }

  // One delay makes several consecutive meetings late, until the queue catches up. So the estimate of the probability
  // counts how often lateness begins on the other ranks of the class, and how often it continues. Each count is
  // increased by one, because zero in a small sample does not mean never. Ranks that are almost always late are
  // excluded, because they may be equally slow.
  double ChanceOf(const MemberLateness& l) const {
    const int64_t bar = l.later_ns / 2;
    const std::vector<const MemberLateness*>& others = of_class_.at(l.place.first);
    double begins = 1, on_time = 2, stays = 1, late = 2;
    size_t asked = 0, taken = 0;
    for (size_t i = 0; i < others.size(); i += 1 + others.size() / kMostOthers) {
      if (others[i] == &l) continue;
      const Runs runs = RunsOver(others[i]->order, bar);
      ++asked;
      if (runs.late * 4 >= runs.meetings * 3) continue;
      ++taken;
      begins += runs.runs;
      on_time += runs.meetings - runs.late + runs.runs;
      stays += runs.late - runs.runs;
      late += runs.late;
    }
    if (taken * 2 < asked) return 1.0;
    const Runs own = RunsOver(l.order, bar);
    return ChanceOfRuns(own.meetings, own.late, own.runs, begins / on_time, stays / late);
  }

  // Returns a lower limit of the time that the rank's record covers.
  int64_t SpanOf(uint32_t r) const {
    const Rank& rank = timing_.model.bundle.ranks[r];
    int64_t inside = 0, first = INT64_MAX, last = 0;
    for (const TimedOp& t : timing_.ranks[r].ops) {
      if (t.start_ns == 0) continue;
      inside += std::min(t.Duration(), kLongestOperationNs);
      const int64_t entered = rank.ops[t.op].enter_ns;
      if (!timing_.ranks[r].Shows(entered)) continue;
      first = std::min(first, entered);
      last = std::max(last, entered);
    }
    return std::max(inside, last - std::min(first, last));
  }

  const Timing& timing_;
  const Paces& paces_;
  std::vector<std::vector<bool>> follows_;  // indexed by rank and timed operation, see FollowsItsOwn
  std::vector<MemberLateness> found_;
  std::map<uint32_t, std::vector<const MemberLateness*>> of_class_;
};

}  // namespace

double ChanceOfRuns(double meetings, double late, double runs, double begins, double stays) {
  if (runs < 1) return 1;
  // The number of ways to choose where the runs of late operations begin, and how many meetings each contains.
  const double log = LogChoose(meetings, runs) + LogChoose(late - 1, runs - 1) + runs * std::log(begins) +
                     (late - runs) * std::log(stays);
  return std::exp(std::min(log, 0.0));
}

std::vector<Habit> FindHabits(const Timing& timing, const Paces& paces) { return HabitFinder(timing, paces).Find(); }

}  // namespace lockstep
