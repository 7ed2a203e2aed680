#include "analyzer/formats/generations.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/util/parts.h"

namespace lockstep {
namespace {

using ring::CommState;

// Wall clocks of one job's hosts differ by less than this. All limits are in nanoseconds.
constexpr int64_t kClockTrust = 60'000'000'000;
// Dumps taken at the same moment are at most this far apart.
constexpr int64_t kAtOnce = 5'000'000'000;
// Within this time, a framework's watchdog notices the end of an operation.
constexpr int64_t kNoticed = 1'000'000'000;
// No rank of a job continues for this long while another is stuck.
constexpr int64_t kStandstill = 3600'000'000'000;

struct Run {
  std::vector<size_t> ranks;  // indexes into the held ranks
  int64_t began_ns = 0;       // wall clock when the first communicator was created; 0 if unknown
};

// Returns the rank's root communicator of all ranks of the job, if its creation finished; nullptr if there is none.
const CommFacts* WholeJob(const HeldRanks& held, size_t at) {
  const Rank& rank = held.ranks[at]->rank;
  for (size_t i = 0; i < rank.memberships.size(); ++i) {
    const Membership& ms = rank.memberships[i];
    const CommFacts& facts = held.facts[held.ranks[at]->facts[i]].facts;
    if (facts.size < 2 || facts.size != rank.world_size || !facts.parent_id.empty()) continue;
    if (ms.state == CommState::kInitializing && ms.issued <= 0) continue;
    return &facts;
  }
  return nullptr;
}

bool Older(const Run& a, const Run& b) {
  return a.began_ns != b.began_ns ? a.began_ns < b.began_ns : a.ranks.size() < b.ranks.size();
}

}  // namespace

void KeepNewestRun(HeldRanks* held, std::vector<Problem>* problems) {
  std::vector<std::unique_ptr<HeldRank>>& ranks = held->ranks;
  Parts parts(ranks.size());
  constexpr size_t kNobody = SIZE_MAX;
  std::vector<size_t> first_with;  // indexed by SaidFacts::comm
  for (size_t i = 0; i < ranks.size(); ++i) {
    for (const uint32_t facts : ranks[i]->facts) {
      const SaidFacts& said = held->facts[facts];
      if (said.facts.id.empty()) continue;
      if (first_with.size() <= said.comm) first_with.resize(said.comm + size_t{1}, kNobody);
      if (first_with[said.comm] == kNobody) {
        first_with[said.comm] = i;
      } else {
        parts.Join(first_with[said.comm], i);
      }
    }
  }
  std::map<size_t, Run> runs;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const Rank& rank = ranks[i]->rank;
    if (rank.memberships.empty()) continue;  // the rank is in no communicator, so it belongs to no particular run
    Run& run = runs[parts.Find(i)];
    run.ranks.push_back(i);
    for (const Membership& ms : rank.memberships) {
      if (ms.created_ns <= 0) continue;
      const int64_t at = ms.created_ns + rank.real_minus_mono_ns;
      if (run.began_ns == 0 || at < run.began_ns) run.began_ns = at;
    }
  }
  if (runs.size() < 2) return;
  std::vector<Run> order;
  order.reserve(runs.size());
  for (auto& [root, run] : runs) order.push_back(std::move(run));
  std::stable_sort(order.begin(), order.end(), [](const Run& a, const Run& b) { return Older(b, a); });
  // Rank numbers, and sizes of whole-job communicators, of the newer runs. A group of ranks that repeats one of these
  // is an older run.
  std::set<int32_t> claimed;
  std::set<int32_t> sizes;
  std::vector<bool> stale(ranks.size());
  for (const Run& run : order) {
    bool old = false;
    for (size_t i : run.ranks) {
      const Rank& rank = ranks[i]->rank;
      old |= claimed.contains(rank.rank);
      // A rank in another communicator of the whole job also belongs to an older run. Its number is unclaimed only
      // because the newer run's file for this rank is missing.
      const CommFacts* whole = WholeJob(*held, i);
      old |= whole != nullptr && sizes.contains(whole->size);
    }
    // Without different creation times, it is unknown which run is newer.
    if (!old || run.began_ns == 0 || run.began_ns == order[0].began_ns) {
      for (size_t i : run.ranks) {
        claimed.insert(ranks[i]->rank.rank);
        const CommFacts* whole = WholeJob(*held, i);
        if (whole != nullptr) sizes.insert(whole->size);
      }
      continue;
    }
    std::vector<int32_t> numbers;
    for (size_t i : run.ranks) {
      stale[i] = true;
      numbers.push_back(ranks[i]->rank.rank);
    }
    std::sort(numbers.begin(), numbers.end());
    problems->push_back({.path = ranks[run.ranks[0]]->rank.path,
                         .text = absl::StrCat(
                             numbers.size(), numbers.size() == 1 ? " rank" : " ranks", " (the first: ", numbers[0],
                             ") from another run of the job omitted: their communicators differ from the newest run's"),
                         .note = true,
                         .like = "another run"});
  }
  size_t i = 0;
  std::erase_if(ranks, [&](const auto&) { return stale[i++]; });
}

namespace {

// The progress of one rank of a Flight Recorder dump in one group.
struct Seen {
  int32_t rank = -1;  // index into Bundle::ranks
  int64_t issued = kUnknown;
  int64_t completed = kNone;  // newest completed operation that needs every member; of any kind if only counts are
                              // recorded
  int64_t newest_ns = 0;      // when the rank's newest entry in any group was issued
  int64_t taken_ns = 0;       // when the dump was taken; 0 if unknown
  bool trusted = false;       // the rank has an operation in flight, and completions are recorded: no abort ended its
                              // operations
  int64_t sure = kNone;       // like `completed`, without operations that an abort may have ended
};

// Returns whether one rank completed operations that the other never issued, although the operations need every member.
bool Contradict(const Seen& a, const Seen& b) { return a.completed > b.issued || b.completed > a.issued; }
bool SurelyContradict(const Seen& a, const Seen& b) { return a.sure > b.issued || b.sure > a.issued; }

// The members' progress by communicator.
using Members = std::map<uint32_t, std::vector<Seen>>;

// The median time of the ranks' last entries. `few` is true if fewer than half of the ranks are at least `apart` from
// it.
struct Usual {
  int64_t time_ns = 0;
  bool few = false;
};

Usual UsualTime(const Members& members, int64_t apart) {
  std::map<int32_t, int64_t> by_rank;
  for (const auto& [comm, list] : members) {
    for (const Seen& s : list) by_rank[s.rank] = s.newest_ns;
  }
  std::vector<int64_t> times;
  times.reserve(by_rank.size());
  for (const auto& [rank, time] : by_rank) times.push_back(time);
  if (times.empty()) return {};
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  const int64_t usual = times[times.size() / 2];
  const auto far = std::count_if(times.begin(), times.end(),
                                 [&](int64_t time) { return time - usual >= apart || usual - time >= apart; });
  return {usual, 2 * static_cast<size_t>(far) < times.size()};
}

// Times of one rank's collective, by the wall clock.
struct Times {
  int64_t issued_ns = INT64_MIN;
  int64_t over_ns = INT64_MAX;  // the latest possible end, if the collective completed and needs every member
};

absl::flat_hash_map<int64_t, Times> TimesOf(const Rank& rank, uint32_t comm) {
  absl::flat_hash_map<int64_t, Times> times;  // by sequence number; the newer collective if a number occurs twice
  for (const Op& op : rank.ops) {
    if (op.membership == kNoIndex || rank.memberships[op.membership].comm != comm || !ring::IsCollective(op.kind) ||
        op.enter_ns <= 0)
      continue;
    Times& of = times[op.seq] = {op.enter_ns};
    if (op.state != OpState::kCompleted || !NeedsEveryMember(op.kind) || CallFactsOf(op.kind).may_be_sends) continue;
    const int64_t over = op.completed_ns > 0 ? op.completed_ns : rank.captured_ns;
    if (over > 0) of.over_ns = over;
  }
  return times;
}

// Returns whether calls with equal numbers are different calls. This is so if one rank completed a collective long
// before the other issued the collective with the same number. It is also so if no constant clock difference lets both
// ranks issue every call before either completed it.
bool NotTheSameCalls(const Rank& a, const Rank& b, uint32_t comm) {
  const auto of_a = TimesOf(a, comm), of_b = TimesOf(b, comm);
  // Limits of how far `a`'s clock is ahead of `b`'s.
  int64_t least = INT64_MIN, most = INT64_MAX;
  for (const auto& [number, x] : of_a) {
    const auto same = of_b.find(number);
    if (same == of_b.end()) continue;
    const Times& y = same->second;
    if (y.over_ns < INT64_MAX) least = std::max(least, x.issued_ns - y.over_ns);
    if (x.over_ns < INT64_MAX) most = std::min(most, x.over_ns - y.issued_ns);
  }
  return least > kClockTrust || most < -kClockTrust || (most < INT64_MAX && least > most + kNoticed);
}

// When a rank issued its completed collectives that need every member, by communicator and sequence number.
using Made = absl::flat_hash_map<std::pair<uint32_t, int64_t>, int64_t>;

Made MadeBy(const Rank& rank) {
  Made made;
  for (const Op& op : rank.ops) {
    if (op.membership == kNoIndex || op.seq < 0 || op.enter_ns <= 0 || op.state != OpState::kCompleted ||
        !NeedsEveryMember(op.kind) || CallFactsOf(op.kind).may_be_sends)
      continue;
    made[{rank.memberships[op.membership].comm, op.seq}] = op.enter_ns;
  }
  return made;
}

// How much later one rank issued the calls than another rank, by their clocks.
struct Later {
  int64_t usual_ns = 0, spread_ns = 0;
  int64_t within_ns = 0;  // time from the first to the last of the common calls
};

std::optional<Later> LaterBy(const Made& one, const Made& other) {
  constexpr size_t kFewCalls = 8;
  std::vector<int64_t> later;
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (const auto& [call, at] : one) {
    const auto same = other.find(call);
    if (same == other.end()) continue;
    later.push_back(at - same->second);
    first = std::min(first, at), last = std::max(last, at);
  }
  if (later.size() < kFewCalls) return std::nullopt;
  std::sort(later.begin(), later.end());
  return Later{later[later.size() / 2], later.back() - later.front(), last - first};
}

// A different attempt of the job ends at different numbers and makes its calls at different intervals. Ranks that agree
// with the others in both, except for a constant time difference, belong to the same attempt but have a wrong clock.
// Corrects their times, and returns whether there were any such ranks.
bool CorrectClocks(const Members& recorded, int64_t usual_ns, Bundle* bundle) {
  constexpr size_t kWitnesses = 8;
  constexpr int64_t kPace = 300;  // the intervals of two attempts differ by more than 1 / kPace
  std::map<int32_t, Made> made;
  const auto made_by = [&](int32_t rank) -> const Made& {
    const auto [it, fresh] = made.try_emplace(rank);
    if (fresh) it->second = MadeBy(bundle->ranks[static_cast<size_t>(rank)]);
    return it->second;
  };
  std::map<int32_t, std::set<int32_t>> witnesses;  // for each rank whose times are far from the usual ones
  std::set<int32_t> elsewhere;                     // ranks with sequence numbers that contradict the others
  for (const auto& [comm, list] : recorded) {
    std::vector<int32_t> sound;
    Seen furthest = {.issued = INT64_MAX};
    const auto far = [&](const Seen& s) { return std::abs(s.newest_ns - usual_ns) >= kClockTrust; };
    for (const Seen& s : list) {
      if (far(s)) continue;
      if (sound.size() < kWitnesses) sound.push_back(s.rank);
      furthest.issued = std::min(furthest.issued, s.issued);
      furthest.completed = std::max(furthest.completed, s.completed);
    }
    for (const Seen& s : list) {
      if (!far(s) || sound.size() < 2) continue;
      if (Contradict(s, furthest)) elsewhere.insert(s.rank);
      witnesses[s.rank].insert(sound.begin(), sound.end());
    }
  }
  bool any = false;
  for (const auto& [rank, sound] : witnesses) {
    if (elsewhere.contains(rank)) continue;
    std::optional<Later> best;
    int64_t among = 0;
    for (const int32_t one : sound) {
      const std::optional<Later> later = LaterBy(made_by(rank), made_by(one));
      if (later && (!best || later->spread_ns < best->spread_ns)) best = later;
      for (const int32_t other : sound) {
        if (other >= one) break;
        const std::optional<Later> between = LaterBy(made_by(one), made_by(other));
        if (between) among = std::max(among, between->spread_ns);
      }
    }
    if (!best || best->spread_ns > 2 * among || best->spread_ns > best->within_ns / kPace ||
        std::abs(best->usual_ns) < kClockTrust)
      continue;
    Rank& wrong = bundle->ranks[static_cast<size_t>(rank)];
    for (Op& op : wrong.ops) {
      for (int64_t* at : {&op.enter_ns, &op.return_ns, &op.started_ns, &op.completed_ns}) {
        if (*at > 0) *at -= best->usual_ns;
      }
    }
    if (wrong.captured_ns > 0) wrong.captured_ns -= best->usual_ns;
    bundle->problems.push_back(
        {.path = wrong.path,
         .text = absl::StrCat("its wall clock is ", (std::abs(best->usual_ns) + kNoticed / 2) / kNoticed, " s ",
                              best->usual_ns > 0 ? "ahead of" : "behind",
                              " other ranks' clocks, as their common calls show; corrected"),
         .rank = wrong.rank,
         .note = true,
         .like = "wrong clock"});
    any = true;
  }
  return any;
}

// Returns the ranks that contradict the member nearest to the job's usual time. Ignores ranks within kAtOnce of that
// time. For other ranks within `apart` of it, completed operations that an abort may have ended do not count.
std::vector<int32_t> Contradicting(const Bundle& bundle, uint32_t comm, const std::vector<Seen>& list, int64_t usual_ns,
                                   int64_t apart) {
  std::vector<int32_t> odd;
  const auto from_usual = [usual_ns](const Seen& s) {
    return s.newest_ns < usual_ns ? usual_ns - s.newest_ns : s.newest_ns - usual_ns;
  };
  const auto usual = std::min_element(list.begin(), list.end(),
                                      [&](const Seen& a, const Seen& b) { return from_usual(a) < from_usual(b); });
  if (list.size() < 2 || from_usual(*usual) >= apart) return odd;
  for (const Seen& s : list) {
    if (from_usual(s) < std::min(apart, kAtOnce) || s.rank == usual->rank) continue;
    if ((from_usual(s) >= apart ? Contradict(s, *usual) : SurelyContradict(s, *usual)) ||
        NotTheSameCalls(bundle.ranks[static_cast<size_t>(s.rank)], bundle.ranks[static_cast<size_t>(usual->rank)],
                        comm))
      odd.push_back(s.rank);
  }
  return odd;
}

// Returns the ranks with dumps that are at least kAtOnce older than the most advanced member's. Either the rank never
// issued an operation that this member completed, and the rank's last entry is older. Or the rank's dump is older, and
// the member issued calls after it. The rank's unfinished operations then prove nothing.
std::vector<int32_t> Earlier(const std::vector<Seen>& list) {
  const Seen* ahead = nullptr;
  for (const Seen& s : list) {
    if (s.trusted && (ahead == nullptr || s.completed > ahead->completed)) ahead = &s;
  }
  std::vector<int32_t> earlier;
  for (const Seen& s : list) {
    if (ahead == nullptr || ahead->completed <= s.completed) continue;
    const bool ran = s.taken_ns > 0 && s.taken_ns < ahead->newest_ns + kNoticed;
    if ((ahead->completed > s.issued && ahead->newest_ns - s.newest_ns >= kAtOnce) ||
        (ran && ahead->taken_ns - s.taken_ns >= kAtOnce))
      earlier.push_back(s.rank);
  }
  return earlier;
}

// Adds the rank's progress in each group, from its entries and counters. `index` is its index in Bundle::ranks.
void AddRecorded(const Rank& rank, int32_t index, Members* members) {
  std::vector<Seen> seen(rank.memberships.size());
  int64_t newest = 0;
  bool runs = false;
  for (const Op& op : rank.ops) {
    newest = std::max(newest, op.enter_ns);
    runs |= IsUnfinished(op.state) && !op.retired;
    if (op.membership == kNoIndex || !ring::IsCollective(op.kind) || op.seq < 0) continue;
    Seen& s = seen[op.membership];
    s.issued = std::max(s.issued, op.seq);
    // An all-to-all with empty splits may complete without a member.
    if (op.state != OpState::kCompleted || !NeedsEveryMember(op.kind) || CallFactsOf(op.kind).may_be_sends) continue;
    s.completed = std::max(s.completed, op.seq);
    // An operation that took kClockTrust or longer may have been ended by an abort after a timeout.
    if (op.completed_ns > 0 && op.completed_ns - op.enter_ns < kClockTrust) s.sure = std::max(s.sure, op.seq);
  }
  for (size_t m = 0; m < seen.size(); ++m) {
    // A small Flight Recorder buffer may have lost all entries of a group, but the counter stays.
    seen[m].issued = std::max(seen[m].issued, rank.memberships[m].issued);
    if (seen[m].issued == kUnknown) continue;
    seen[m].rank = index;
    seen[m].newest_ns = newest;
    seen[m].taken_ns = rank.captured_ns;
    seen[m].trusted = runs && !rank.ends_untold;
    if (seen[m].trusted) seen[m].sure = seen[m].completed;
    (*members)[rank.memberships[m].comm].push_back(seen[m]);
  }
}

// Adds the rank's progress from its counters. A dump of only active operations has no kinds of completed operations.
void AddCounted(const Rank& rank, int32_t index, Members* members) {
  int64_t newest = 0;
  for (const Op& op : rank.ops) newest = std::max(newest, op.enter_ns);
  if (newest == 0) return;
  for (const Membership& ms : rank.memberships) {
    if (ms.issued < 0) continue;
    (*members)[ms.comm].push_back({index, ms.issued, ms.completed, newest, rank.captured_ns});
  }
}

// Returns the ranks with a last entry at least kClockTrust older than the job's newest.
std::set<int32_t> BeforeTheNewest(const Members& recorded, const Members& counted) {
  std::map<int32_t, int64_t> newest_of;
  int64_t newest = 0;
  for (const Members* members : {&recorded, &counted}) {
    for (const auto& [comm, list] : *members) {
      for (const Seen& s : list) newest = std::max(newest, newest_of[s.rank] = s.newest_ns);
    }
  }
  std::set<int32_t> old;
  for (const auto& [rank, time] : newest_of) {
    if (newest - time >= kClockTrust) old.insert(rank);
  }
  return old;
}

void LeaveOut(const std::set<int32_t>& ranks, const char* why, Bundle* bundle) {
  for (int32_t r : ranks) {
    const Rank& rank = bundle->ranks[static_cast<size_t>(r)];
    bundle->problems.push_back({rank.path, -1, why, rank.rank, /*note=*/true});
  }
  int32_t index = 0;
  std::erase_if(bundle->ranks, [&](const Rank&) { return ranks.contains(index++); });
}

}  // namespace

void LeaveOutForeignDumps(Bundle* bundle) {
  Members recorded, counted;
  const auto look = [&] {
    recorded.clear(), counted.clear();
    const bool any_active = std::any_of(bundle->ranks.begin(), bundle->ranks.end(),
                                        [](const Rank& rank) { return rank.only_active && !rank.damaged; });
    for (size_t r = 0; r < bundle->ranks.size(); ++r) {
      const Rank& rank = bundle->ranks[r];
      if (rank.source != Source::kFlightRecorder || rank.damaged) continue;
      if (any_active) AddCounted(rank, static_cast<int32_t>(r), &counted);
      if (!rank.only_active) AddRecorded(rank, static_cast<int32_t>(r), &recorded);
    }
  };
  look();
  if (CorrectClocks(recorded, UsualTime(recorded, kClockTrust).time_ns, bundle)) look();
  std::set<int32_t> foreign;
  const Usual recorded_at = UsualTime(recorded, kClockTrust), counted_at = UsualTime(counted, kStandstill);
  for (const auto& [comm, list] : recorded) {
    for (int32_t rank : Contradicting(*bundle, comm, list, recorded_at.time_ns, kClockTrust)) foreign.insert(rank);
    for (int32_t rank : Earlier(list)) foreign.insert(rank);
  }
  bool mixed = !foreign.empty() && !recorded_at.few;
  // A counted operation may be a broadcast, which may complete at its root before another member arrives. But this does
  // not happen in several groups, or for kStandstill.
  std::map<int32_t, int> groups, all_groups;
  for (const auto& [comm, list] : counted) {
    for (const Seen& s : list) ++all_groups[s.rank];
    for (int32_t rank : Contradicting(*bundle, comm, list, counted_at.time_ns, kStandstill)) ++groups[rank];
  }
  for (const auto& [rank, contradictions] : groups) {
    if (contradictions < std::min(2, all_groups[rank])) continue;
    foreign.insert(rank);
    mixed |= !counted_at.few;
  }
  if (foreign.empty()) return;
  const std::set<int32_t> old = BeforeTheNewest(recorded, counted);
  const bool newest = std::any_of(foreign.begin(), foreign.end(), [&](int32_t rank) { return !old.contains(rank); });
  const bool half = 2 * foreign.size() >= bundle->ranks.size();
  if ((mixed || newest || half) && !old.empty() && bundle->ranks.size() >= old.size() + 2) {
    LeaveOut(old, "omitted: it is from an earlier run, or an earlier time in this run, than the newest dumps", bundle);
    return;
  }
  if (mixed)
    bundle->problems.push_back({"", -1,
                                "the dumps are from several runs, or from several times in one run: half of them or "
                                "more contradict the others; analyze only dumps that were taken at the same time",
                                -1});
  if (mixed || half) return;
  LeaveOut(foreign,
           "omitted: it is from another run, or another time in this run, because it contradicts the dumps of most "
           "other ranks",
           bundle);
}

}  // namespace lockstep
