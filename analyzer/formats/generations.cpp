#include "analyzer/formats/generations.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/model/call_kinds.h"

namespace lockstep {
namespace {

using ring::CommState;

// Wall clocks of one job's hosts differ by less than this.
constexpr int64_t kClockTrust = 60'000'000'000;
// A framework's watchdog notices the end of an operation within this.
constexpr int64_t kNoticed = 1'000'000'000;
// No rank of a job continues for this long while another is stuck.
constexpr int64_t kStandstill = 3600'000'000'000;

class Parts {
 public:
  explicit Parts(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), size_t{0}); }
  size_t Find(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void Join(size_t a, size_t b) { parent_[Find(b)] = Find(a); }

 private:
  std::vector<size_t> parent_;
};

struct Run {
  std::vector<size_t> ranks;  // indexes into the held ranks
  int64_t began_ns = 0;       // wall clock when the first communicator was created; 0 if unknown
};

// A communicator with the whole job that was created completely; nullptr if none.
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
  // What newer runs claim: ranks of the job, and a communicator of the whole job, of which a run has one.
  std::set<int32_t> claimed;
  std::set<int32_t> sizes;
  std::vector<bool> stale(ranks.size());
  for (const Run& run : order) {
    bool old = false;
    for (size_t i : run.ranks) {
      const Rank& rank = ranks[i]->rank;
      old |= claimed.contains(rank.rank);
      // A part of a second communicator of the whole job, whose place in the first is free because its own dump is
      // missing.
      const CommFacts* whole = WholeJob(*held, i);
      old |= whole != nullptr && sizes.contains(whole->size);
    }
    // Without times it is unknown which is newer.
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
    problems->push_back(
        {.path = ranks[run.ranks[0]]->rank.path,
         .text = absl::StrCat(
             numbers.size(), numbers.size() == 1 ? " rank" : " ranks", " (the first: ", numbers[0],
             ") of another run of the job left out: their communicators differ from those of the newest run"),
         .note = true,
         .like = "another run"});
  }
  size_t i = 0;
  std::erase_if(ranks, [&](const auto&) { return stale[i++]; });
}

namespace {

// How far a rank of a Flight Recorder dump got in one group.
struct Seen {
  int32_t rank = -1;  // index into Bundle::ranks
  int64_t issued = kUnknown;
  int64_t completed = kNone;  // newest that is known to be complete, and needs every member if kinds are known
  int64_t newest_ns = 0;      // newest entry of any group
  int64_t taken_ns = 0;       // when the dump was taken; 0 if unknown
  bool trusted = false;       // the rank still ran, and completions are completions: no abort ended its operations
  int64_t issued_ns = 0;      // when the newest operation of the group was issued
  int64_t ended_ns = 0;       // when `completed` was noticed to have ended; 0 if unknown
  bool told = false;          // completions are completions, unless an abort ended the operations
};

// Maps communicators to how far their members were.
using Members = std::map<uint32_t, std::vector<Seen>>;

// Ranks whose dumps are of another time than those of other members.
struct Foreign {
  std::set<int32_t> ranks;
  bool moved = false;  // dumps may be of different times of one run, so the job may have run while they were taken
};

// Two members contradict each other if one completed an operation with the other that the other never issued. If clocks
// alone must tell, the older of the two is foreign, and they are at least `apart`. If the completion is trusted, the
// times only show which of the two is foreign: the member that is ahead is of an earlier run if its operation ended
// before the other's last call, which would have had to come first. Otherwise the other's dump was taken earlier, and
// what it shows as unfinished is no evidence.
void AddForeign(const std::vector<Seen>& list, bool trust, int64_t apart, Foreign* foreign) {
  const auto out = [foreign](const Seen& s) { return foreign->ranks.contains(s.rank); };
  for (size_t left = list.size() / 2; left > 0; --left) {
    const Seen* ahead = nullptr;
    for (const Seen& s : list) {
      if ((s.trusted || !trust) && !out(s) && (ahead == nullptr || s.completed > ahead->completed)) ahead = &s;
    }
    if (ahead == nullptr) return;
    std::vector<const Seen*> earlier;
    size_t later = 0;
    for (const Seen& s : list) {
      if (out(s) || &s == ahead) continue;
      const int64_t end = std::max(ahead->ended_ns, ahead->newest_ns);
      const bool ran = s.taken_ns > 0 && s.taken_ns < end + kNoticed;
      if (ahead->completed > s.issued) {
        if (end + (trust ? 1 : apart) <= s.newest_ns) {
          ++later;
        } else if (end - s.newest_ns >= apart && (!trust || s.taken_ns <= end + kClockTrust)) {
          earlier.push_back(&s);
        }
      } else if (ahead->completed == s.issued && ahead->ended_ns > 0 && ahead->ended_ns + kClockTrust <= s.issued_ns) {
        ++later;
      } else if (trust && ahead->completed > s.completed && ran) {
        earlier.push_back(&s);
      }
    }
    if (later <= earlier.size()) {
      for (const Seen* s : earlier) {
        foreign->ranks.insert(s->rank);
        foreign->moved |= ahead->newest_ns - s->newest_ns < kClockTrust;
      }
      return;
    }
    foreign->ranks.insert(ahead->rank);
  }
}

// Whether members that stay contradict each other.
bool Contradicting(const std::vector<Seen>& list, const Foreign& foreign) {
  int64_t completed = kNone, issued = INT64_MAX;
  for (const Seen& s : list) {
    if (foreign.ranks.contains(s.rank)) continue;
    if (s.told) completed = std::max(completed, s.completed);
    issued = std::min(issued, s.issued);
  }
  return completed > issued;
}

// Adds how far the rank got by its own entries.
void AddRecorded(const Rank& rank, int32_t index, Members* members) {
  std::vector<Seen> seen(rank.memberships.size());
  int64_t newest = 0;
  bool runs = false;
  for (const Op& op : rank.ops) {
    newest = std::max(newest, op.enter_ns);
    runs |= IsUnfinished(op.state) && !op.retired;
    if (op.membership == kNoIndex || !ring::IsCollective(op.kind) || op.seq < 0) continue;
    Seen& s = seen[op.membership];
    if (op.seq > s.issued) s.issued = op.seq, s.issued_ns = op.enter_ns;
    // An all-to-all with empty splits may complete without a member.
    if (op.state == OpState::kCompleted && NeedsEveryMember(op.kind) && !CallFactsOf(op.kind).may_be_sends &&
        op.seq > s.completed)
      s.completed = op.seq, s.ended_ns = rank.ends_untold ? 0 : op.completed_ns;
  }
  for (size_t m = 0; m < seen.size(); ++m) {
    // A small ring may hold no entry of a group that the rank counted in.
    seen[m].issued = std::max(seen[m].issued, rank.memberships[m].issued);
    if (seen[m].issued == kUnknown) continue;
    seen[m].rank = index;
    seen[m].newest_ns = newest;
    seen[m].taken_ns = rank.captured_ns;
    seen[m].told = !rank.ends_untold;
    seen[m].trusted = runs && seen[m].told;
    (*members)[rank.memberships[m].comm].push_back(seen[m]);
  }
}

// In a dump of active operations, completed ones are only a number, without their kind.
void AddCounted(const Rank& rank, int32_t index, Members* members) {
  int64_t newest = 0;
  for (const Op& op : rank.ops) newest = std::max(newest, op.enter_ns);
  if (newest == 0) return;
  for (const Membership& ms : rank.memberships) {
    if (ms.issued < 0) continue;
    (*members)[ms.comm].push_back({index, ms.issued, ms.completed, newest, rank.captured_ns});
  }
}

}  // namespace

void LeaveOutForeignDumps(Bundle* bundle) {
  Members recorded, counted;
  int64_t newest = 0;
  for (size_t r = 0; r < bundle->ranks.size(); ++r) {
    const Rank& rank = bundle->ranks[r];
    if (rank.source != Source::kFlightRecorder || rank.damaged) continue;
    for (const Op& op : rank.ops) newest = std::max(newest, op.enter_ns);
    rank.only_active ? AddCounted(rank, static_cast<int32_t>(r), &counted)
                     : AddRecorded(rank, static_cast<int32_t>(r), &recorded);
  }
  Foreign foreign;
  for (const auto& [comm, list] : recorded) {
    AddForeign(list, true, 0, &foreign);
    AddForeign(list, false, kClockTrust, &foreign);
  }
  for (const auto& [comm, list] : recorded) foreign.moved |= Contradicting(list, foreign);
  // A broadcast may complete at its root before another member arrives, but not in several groups and not for this
  // long.
  std::map<int32_t, int> groups;
  for (const auto& [comm, list] : counted) {
    Foreign of_group;
    AddForeign(list, false, kStandstill, &of_group);
    for (const int32_t rank : of_group.ranks) {
      if (++groups[rank] == 2) foreign.ranks.insert(rank);
    }
  }
  bool undated = false;
  for (Rank& rank : bundle->ranks) {
    if (!foreign.moved || rank.source != Source::kFlightRecorder || rank.captured_ns != 0) continue;
    undated = true;
    rank.captured_ns = newest;
  }
  if (undated)
    bundle->problems.push_back({"", -1,
                                "the dumps are from different times of a job that ran meanwhile, and the files' times "
                                "do not show when: what they show as unfinished may have ended since",
                                -1});
  if (foreign.ranks.empty()) return;
  if (2 * foreign.ranks.size() >= bundle->ranks.size()) {
    bundle->problems.push_back({"", -1,
                                "the dumps are from several runs, or from several times of one run: half of them or "
                                "more contradict the others; analyze only dumps that were taken together",
                                -1});
    return;
  }
  for (int32_t r : foreign.ranks) {
    const Rank& rank = bundle->ranks[r];
    bundle->problems.push_back({rank.path, -1,
                                "left out: it is from another run, or from another time of this run, because it "
                                "contradicts the dumps of most other ranks",
                                rank.rank, /*note=*/true});
  }
  int32_t index = 0;
  std::erase_if(bundle->ranks, [&](const Rank&) { return foreign.ranks.contains(index++); });
}

}  // namespace lockstep
