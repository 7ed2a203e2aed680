#include "analyzer/load_generations.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

using ring::CommState;

// Wall clocks of one job's hosts differ by less.
constexpr int64_t kClockTrust = 60'000'000'000;

// Cannot be complete on one member before all have entered.
bool WaitsForAll(ring::CallKind kind) {
  return kind == ring::CallKind::kAllReduce || kind == ring::CallKind::kAllGather || kind == ring::CallKind::kReduceScatter ||
         kind == ring::CallKind::kAlltoAll || kind == ring::CallKind::kBarrier;
}

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
  std::vector<size_t> ranks;         // into the loose ranks
  int64_t began_ns = 0;              // wall clock of the first communicator made; 0 unknown
};

// A communicator that takes in the whole job, made and not only begun; nullptr: none.
const CommFacts* WholeJob(const LooseRank& loose, const Membership** membership) {
  for (size_t i = 0; i < loose.comms.size(); ++i) {
    const Membership& ms = loose.rank.memberships[i];
    if (loose.comms[i].size < 2 || loose.comms[i].size != loose.rank.world_size || !loose.comms[i].parent_id.empty()) continue;
    if (ms.state == CommState::kInitializing && ms.issued <= 0) continue;
    *membership = &ms;
    return &loose.comms[i];
  }
  return nullptr;
}

bool Older(const Run& a, const Run& b) {
  return a.began_ns != b.began_ns ? a.began_ns < b.began_ns : a.ranks.size() < b.ranks.size();
}

}  // namespace

void KeepNewestRun(std::vector<LooseRank>* ranks, std::vector<Problem>* problems) {
  Parts parts(ranks->size());
  absl::flat_hash_map<std::string, size_t> first_with;
  for (size_t i = 0; i < ranks->size(); ++i) {
    for (const CommFacts& comm : (*ranks)[i].comms) {
      if (comm.id.empty()) continue;
      auto [it, fresh] = first_with.try_emplace(comm.id, i);
      if (!fresh) parts.Join(it->second, i);
    }
  }
  std::map<size_t, Run> runs;
  for (size_t i = 0; i < ranks->size(); ++i) {
    const LooseRank& loose = (*ranks)[i];
    if (loose.comms.empty()) continue;  // made none: of no run in particular
    Run& run = runs[parts.Find(i)];
    run.ranks.push_back(i);
    for (const Membership& ms : loose.rank.memberships) {
      if (ms.created_ns <= 0) continue;
      const int64_t at = ms.created_ns + loose.rank.real_minus_mono_ns;
      if (run.began_ns == 0 || at < run.began_ns) run.began_ns = at;
    }
  }
  if (runs.size() < 2) return;
  std::vector<Run> order;
  for (auto& [root, run] : runs) order.push_back(std::move(run));
  std::stable_sort(order.begin(), order.end(), [](const Run& a, const Run& b) { return Older(b, a); });
  // What newer runs claim: ranks of the job, and a communicator of the whole job, of which a run has one.
  std::set<int32_t> claimed;
  std::set<int32_t> sizes;
  std::vector<bool> stale(ranks->size());
  for (const Run& run : order) {
    bool old = false;
    for (size_t i : run.ranks) {
      const Rank& rank = (*ranks)[i].rank;
      old |= claimed.contains(rank.rank);
      // A part of a second communicator of the whole job, whose place in the first is free because its own dump is not there.
      const Membership* ms = nullptr;
      const CommFacts* whole = WholeJob((*ranks)[i], &ms);
      old |= whole != nullptr && sizes.contains(whole->size);
    }
    // Without times nothing says which is the newer.
    if (!old || run.began_ns == 0 || run.began_ns == order[0].began_ns) {
      for (size_t i : run.ranks) {
        claimed.insert((*ranks)[i].rank.rank);
        const Membership* ms = nullptr;
        const CommFacts* whole = WholeJob((*ranks)[i], &ms);
        if (whole != nullptr) sizes.insert(whole->size);
      }
      continue;
    }
    std::vector<int32_t> numbers;
    for (size_t i : run.ranks) {
      stale[i] = true;
      numbers.push_back((*ranks)[i].rank.rank);
    }
    std::sort(numbers.begin(), numbers.end());
    problems->push_back({(*ranks)[run.ranks[0]].rank.path, -1,
                         absl::StrCat(numbers.size(), numbers.size() == 1 ? " rank" : " ranks", " (the first: ", numbers[0],
                                      ") of another run of the job left out: their communicators are not those of the newest run"),
                         -1, /*note=*/true});
  }
  size_t kept = 0;
  for (size_t i = 0; i < ranks->size(); ++i) {
    if (stale[i]) continue;
    if (kept != i) (*ranks)[kept] = std::move((*ranks)[i]);
    ++kept;
  }
  ranks->resize(kept);
}

void LeaveOutForeignDumps(Bundle* bundle) {
  struct Seen {
    int32_t rank = -1;              // into Bundle::ranks
    int64_t issued = kUnknown;
    int64_t completed = kNone;      // newest that needs every member and is known to be complete
    int64_t newest_ns = 0;          // newest entry of any kind
  };
  std::map<uint32_t, std::vector<Seen>> members;
  for (size_t r = 0; r < bundle->ranks.size(); ++r) {
    const Rank& rank = bundle->ranks[r];
    if (rank.source != Source::kFlightRecorder || rank.damaged || rank.only_active) continue;
    std::vector<Seen> seen(rank.memberships.size());
    int64_t newest = 0;
    for (const Op& op : rank.ops) {
      newest = std::max(newest, op.enter_ns);
      if (op.membership == kNoIndex || !ring::IsCollective(op.kind) || op.seq < 0) continue;
      Seen& s = seen[op.membership];
      s.issued = std::max(s.issued, op.seq);
      if (op.state == OpState::kCompleted && WaitsForAll(op.kind)) s.completed = std::max(s.completed, op.seq);
    }
    for (size_t m = 0; m < seen.size(); ++m) {
      if (seen[m].issued < 0) continue;
      seen[m].rank = static_cast<int32_t>(r);
      seen[m].issued = std::max(seen[m].issued, rank.memberships[m].issued);
      seen[m].newest_ns = newest;
      members[rank.memberships[m].comm].push_back(seen[m]);
    }
  }
  std::set<int32_t> foreign;
  for (auto& [comm, list] : members) {
    if (list.size() < 3) continue;
    // The usual member: the median by the time of its last entry. What differs from it by a minute and contradicts it is few.
    std::vector<const Seen*> order;
    for (const Seen& s : list) order.push_back(&s);
    std::sort(order.begin(), order.end(), [](const Seen* a, const Seen* b) {
      return a->newest_ns != b->newest_ns ? a->newest_ns < b->newest_ns : a->rank < b->rank;
    });
    const Seen& usual = *order[order.size() / 2];
    std::vector<int32_t> odd;
    for (const Seen& s : list) {
      const int64_t apart = s.newest_ns - usual.newest_ns;
      if (apart < kClockTrust && apart > -kClockTrust) continue;
      // The others completed with it what it never issued, or the reverse.
      if (usual.completed > s.issued || s.completed > usual.issued) odd.push_back(s.rank);
    }
    if (2 * odd.size() < list.size()) foreign.insert(odd.begin(), odd.end());
  }
  if (foreign.empty() || 2 * foreign.size() >= bundle->ranks.size()) return;
  for (int32_t r : foreign) {
    const Rank& rank = bundle->ranks[r];
    bundle->problems.push_back({rank.path, -1,
                                "left out: it is of another run, or of another time of this one; what it holds cannot be true together with "
                                "the dumps of most other ranks",
                                rank.rank, /*note=*/true});
  }
  int32_t index = 0;
  std::erase_if(bundle->ranks, [&](const Rank&) { return foreign.contains(index++); });
}

}  // namespace lockstep
