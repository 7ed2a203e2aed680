#include "analyzer/engine_habit.h"

#include <algorithm>
#include <map>

#include "analyzer/engine_chance.h"

namespace lockstep {
namespace {

// Fewer meetings have no middle worth the name.
constexpr uint32_t kLeastMeetings = 12;
// Longer than any operation of a job that moves: not summed.
constexpr int64_t kLongest = int64_t{1} << 40;
constexpr size_t kSamples = 32;
// From so many sibling communicators on, what all members at one place do is by design.
constexpr size_t kLeastSiblings = 3;

int64_t Median(std::vector<int64_t>* values) {
  if (values->empty()) return 0;
  const auto middle = values->begin() + static_cast<ptrdiff_t>(values->size() / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

// What the later quarter comes to. Operations often follow each other with no work between, so that half of the meetings may tell nothing;
// what happens now and then is not in a quarter of them.
int64_t OfAQuarter(std::vector<int64_t>* values) {
  const auto at = values->begin() + static_cast<ptrdiff_t>(values->size() * 3 / 4);
  std::nth_element(values->begin(), at, values->end());
  return *at;
}

// Of each timed operation: whether what the rank called before it is the one before it of the same communicator.
std::vector<bool> FollowsItsOwn(const Timing& timing, const Paces& paces, uint32_t r) {
  const Rank& rank = timing.model.bundle.ranks[r];
  const auto& ops = timing.ranks[r].ops;
  std::vector<bool> follows(ops.size());
  const std::vector<uint32_t> program = paces.ProgramOrder(r);
  for (size_t i = 1; i < program.size(); ++i) {
    const TimedOp &before = ops[program[i - 1]], &here = ops[program[i]];
    follows[program[i]] = before.comm == here.comm && before.seq >= 0 && here.seq >= 0 && here.seq - before.seq == 1 && before.start_ns != 0 &&
                          NeedsEveryMember(rank.ops[before.op].kind);
  }
  return follows;
}

}  // namespace

std::vector<Habit> FindHabits(const Timing& timing, const Paces& paces) {
  const size_t count = timing.ranks.size();
  std::vector<Habit> habits(count);
  std::vector<std::vector<bool>> follows(count);
  for (uint32_t r = 0; r < count; ++r) follows[r] = FollowsItsOwn(timing, paces, r);

  struct Seen {
    uint32_t meetings = 0;
    int64_t later_ns = 0, waited_ns = 0;
    double often = 0;                // share of the meetings in which it came later than half of later_ns
    std::vector<int64_t> samples;    // some of its latenesses, evenly
  };
  std::map<std::pair<uint32_t, size_t>, std::vector<int64_t>> by_place;   // class, member -> what its ranks usually do
  struct Found {
    uint32_t rank, comm;
    size_t place;
    Seen seen;
  };
  std::vector<Found> found;
  std::vector<std::vector<int64_t>> later;   // by member of the communicator that is looked at
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
      // Of some that are known the first to come may be late itself.
      if (measured < 2 || measured * 4 < members.size() * 3 || longest > kLongest) continue;
      for (uint32_t a = 0; a < meeting.count; ++a) {
        const Attendance& who = timing.attendance[meeting.first + a];
        const TimedOp& t = timing.At(who);
        if (t.start_ns == 0 || !follows[who.rank][who.timed]) continue;
        const Rank& rank = timing.model.bundle.ranks[who.rank];
        const int32_t place = rank.memberships[rank.ops[t.op].membership].member_rank;
        if (place >= 0 && static_cast<size_t>(place) < later.size()) later[static_cast<size_t>(place)].push_back(longest - t.Duration());
      }
    }
    begin = end;
    for (size_t place = 0; place < later.size(); ++place) {
      std::vector<int64_t>& list = later[place];
      if (list.size() < kLeastMeetings || members[place].rank_index < 0) continue;
      Seen seen;
      seen.meetings = static_cast<uint32_t>(list.size());
      seen.later_ns = OfAQuarter(&list);
      size_t late = 0;
      for (int64_t ns : list) {
        seen.waited_ns += std::min(ns, 2 * seen.later_ns);
        late += ns > seen.later_ns / 2;
      }
      seen.often = static_cast<double>(late) / static_cast<double>(list.size());
      for (size_t i = 0; i < list.size(); i += 1 + list.size() / kSamples) seen.samples.push_back(list[i]);
      by_place[{paces.class_of_comm[comm], place}].push_back(seen.later_ns);
      found.push_back({static_cast<uint32_t>(members[place].rank_index), comm, place, std::move(seen)});
    }
  }

  std::map<uint32_t, std::vector<int64_t>> by_class, samples;
  for (const Found& f : found) {
    by_class[paces.class_of_comm[f.comm]].push_back(f.seen.later_ns);
    std::vector<int64_t>& all = samples[paces.class_of_comm[f.comm]];
    all.insert(all.end(), f.seen.samples.begin(), f.seen.samples.end());
  }
  for (auto& [klass, list] : samples) std::sort(list.begin(), list.end());
  // How often others of the class come later than that, by one more than were seen: none of few is not never.
  const auto others = [&](const Found& f, int64_t than) {
    const std::vector<int64_t>& all = samples[paces.class_of_comm[f.comm]];
    const auto own = std::count_if(f.seen.samples.begin(), f.seen.samples.end(), [&](int64_t ns) { return ns > than; });
    const auto late = all.end() - std::upper_bound(all.begin(), all.end(), than) - own;
    const auto of = static_cast<ptrdiff_t>(all.size() - f.seen.samples.size());
    return static_cast<double>(late + 1) / static_cast<double>(of + 2);
  };
  std::map<uint32_t, int64_t> usual;
  for (auto& [klass, list] : by_class) usual[klass] = Median(&list);
  std::map<std::pair<uint32_t, size_t>, int64_t> by_design;
  for (auto& [key, list] : by_place) {
    if (list.size() >= kLeastSiblings) by_design[key] = Median(&list);
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
    habit.by_chance = static_cast<double>(found.size()) * AtMostByChance(f.seen.meetings, f.seen.often, others(f, f.seen.later_ns / 2));
  }
  for (uint32_t r = 0; r < count; ++r) {
    if (habits[r].comm == kNoIndex) continue;
    const Rank& rank = timing.model.bundle.ranks[r];
    int64_t inside = 0, first = INT64_MAX, last = 0;
    for (const TimedOp& t : timing.ranks[r].ops) {
      if (t.start_ns == 0) continue;
      inside += std::min(t.Duration(), kLongest);
      const int64_t entered = rank.ops[t.op].enter_ns;
      if (!IsTime(entered)) continue;
      first = std::min(first, entered);
      last = std::max(last, entered);
    }
    habits[r].span_ns = std::max(inside, last - std::min(first, last));
  }
  return habits;
}

}  // namespace lockstep
