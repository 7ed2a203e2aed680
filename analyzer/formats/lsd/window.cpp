#include "analyzer/formats/lsd/window.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/formats/lsd/format.h"
#include "analyzer/util/sorted.h"

namespace lockstep {
namespace {

// If members of a communicator differ in calls, the same calls are also loaded from at most kSiblings communicators of
// its class, for at most kSiblingMembers members each.
constexpr size_t kSiblings = 8, kSiblingMembers = 64;
// If members of a communicator differ and it has at most this many members, all of them are loaded completely. Their
// programs show which rank skipped or added a call.
constexpr size_t kFullMembers = 16;
// Maximum number of ranks whose program differs from most in their role, and of ranks to compare each of them with.
constexpr size_t kOddRanks = 64, kWitnesses = 3;

struct Slot {
  LsdFile::ReadRank* read = nullptr;
  LsdPlan* plan = nullptr;
  uint32_t first_comm = 0;  // index into comm_of_
};

struct Place {
  uint32_t slot = 0, membership = 0;
  int32_t member = -1;
};

// Hashes of consecutive pieces of a lane, which are blocks or single calls; `first` is a piece number. A hash of 0 is
// unknown.
template <typename Hash>
struct Strip {
  const Hash* hashes = nullptr;
  int64_t first = 0;
  uint32_t count = 0;
};

// The hashes of one lane, and the rank that owns the lane.
struct Line {
  Strip<uint64_t> blocks;
  Strip<uint32_t> old, newest;
  uint32_t who = 0;  // slot, or index of a Place
};

// One hashed piece: calls [first, last] of a lane.
struct Entry {
  int64_t first, last;
  uint64_t hash;
  uint32_t who;
};

Line CallsOf(const History& history, const LaneHistory& lane, uint32_t who) {
  return {{history.calls.data() + lane.begin, lane.first_block, lane.blocks},
          {history.singles.data() + lane.old_begin, lane.old_seq, lane.old_count},
          {history.singles.data() + lane.new_begin, lane.new_seq, lane.new_count},
          who};
}

uint64_t CombineHashes(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ hash >> 29;
}

// Returns the first piece that both know and in which they differ; -1 if there is none.
template <typename Hash>
int64_t FirstDifference(const Strip<Hash>& a, const Strip<Hash>& b) {
  const int64_t from = std::max(a.first, b.first), end = std::min(a.first + a.count, b.first + b.count);
  for (int64_t i = from; i < end; ++i) {
    const Hash x = a.hashes[i - a.first], y = b.hashes[i - b.first];
    if (x != y && x != 0 && y != 0) return i;
  }
  return -1;
}

// Returns the first numbers [first, last] in which two lines differ; {-1, -1} if all pieces that both know are equal.
std::pair<int64_t, int64_t> FirstDifference(const Line& a, const Line& b) {
  std::pair<int64_t, int64_t> found{INT64_MAX, -1};
  if (const int64_t block = FirstDifference(a.blocks, b.blocks); block >= 0)
    found = {block * kLsdBlockOps, block * kLsdBlockOps + kLsdBlockOps - 1};
  for (const auto* x : {&a.old, &a.newest}) {
    for (const auto* y : {&b.old, &b.newest}) {
      if (const int64_t seq = FirstDifference(*x, *y); seq >= 0) found = std::min(found, {seq, seq});
    }
  }
  return found.second < 0 ? std::pair<int64_t, int64_t>{-1, -1} : found;
}

bool Differ(const Line& a, const Line& b) { return FirstDifference(a, b).second >= 0; }

// Returns every known piece of all lines, sorted by calls, then by hash.
std::vector<Entry> ByPlace(const std::vector<Line>& lines) {
  std::vector<Entry> entries;
  for (const Line& line : lines) {
    for (uint32_t i = 0; i < line.blocks.count; ++i) {
      const int64_t first = (line.blocks.first + i) * kLsdBlockOps;
      if (line.blocks.hashes[i] != 0)
        entries.push_back({first, first + kLsdBlockOps - 1, line.blocks.hashes[i], line.who});
    }
    for (const auto* strip : {&line.old, &line.newest}) {
      for (uint32_t i = 0; i < strip->count; ++i) {
        if (strip->hashes[i] != 0) entries.push_back({strip->first + i, strip->first + i, strip->hashes[i], line.who});
      }
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.first, a.last, a.hash, a.who) < std::tie(b.first, b.last, b.hash, b.who);
  });
  return entries;
}

class Chooser {
 public:
  Chooser(const std::vector<std::unique_ptr<LsdFile>>& files, const LoadLimits& limits)
      : files_(files), limits_(limits) {}

  LoadChoice Choose() {
    for (const auto& file : files_) choice_.plans.emplace_back(file->ranks().size());
    const uint64_t total = CountOperations(files_);
    if (total <= limits_.all) return std::move(choice_);
    Index();
    const uint64_t newest = std::max<uint64_t>(limits_.at_least, limits_.newest / slots_.size());
    for (Slot& slot : slots_) slot.plan->newest = newest;
    NeedUnfinished();
    room_ = limits_.history;
    CompareMembers();
    ComparePairs();
    ComparePrograms();
    Say(total, newest);
    return std::move(choice_);
  }

 private:
  const Membership& At(const Place& place) const {
    return slots_[place.slot].read->loose.rank.memberships[place.membership];
  }

  void Index() {
    absl::flat_hash_map<std::string_view, uint32_t> index;
    for (size_t f = 0; f < files_.size(); ++f) {
      for (size_t r = 0; r < files_[f]->ranks().size(); ++r) {
        Slot slot;
        slot.read = &files_[f]->ranks()[r];
        slot.plan = &choice_.plans[f][r];
        slots_.push_back(slot);
      }
    }
    std::sort(slots_.begin(), slots_.end(), [](const Slot& a, const Slot& b) {
      const Rank &x = a.read->loose.rank, &y = b.read->loose.rank;
      return std::tie(x.rank, x.restart_count, x.pid, x.captured_ns) <
             std::tie(y.rank, y.restart_count, y.pid, y.captured_ns);
    });
    for (uint32_t s = 0; s < slots_.size(); ++s) {
      Slot& slot = slots_[s];
      const LooseRank& loose = slot.read->loose;
      slot.first_comm = static_cast<uint32_t>(comm_of_.size());
      for (uint32_t i = 0; i < loose.comms.size(); ++i) {
        const CommFacts& facts = loose.comms[i];
        const uint32_t comm = index.try_emplace(facts.id, static_cast<uint32_t>(index.size())).first->second;
        if (comm == classes_.size())
          classes_.push_back(CommClassHash(facts.name, facts.size, !facts.parent_id.empty(), facts.ordinal));
        comm_of_.push_back(comm);
      }
    }
    places_.resize(index.size());
    for (uint32_t s = 0; s < slots_.size(); ++s) {
      const auto& memberships = slots_[s].read->loose.rank.memberships;
      for (uint32_t i = 0; i < memberships.size(); ++i)
        places_[comm_of_[slots_[s].first_comm + i]].push_back({s, i, memberships[i].member_rank});
    }
    for (auto& places : places_) {
      std::stable_sort(places.begin(), places.end(),
                       [](const Place& a, const Place& b) { return a.member < b.member; });
    }
  }

  const Place* FindMember(uint32_t comm, int32_t member) const {
    const auto& places = places_[comm];
    auto it =
        std::lower_bound(places.begin(), places.end(), member, [](const Place& p, int32_t m) { return p.member < m; });
    return it != places.end() && it->member == member ? &*it : nullptr;
  }

  // An operation that one member issued and another did not may be in progress, no matter what the GPU reported. The
  // first of these operations shows the rank's position; the newest ones are loaded anyway.
  void NeedUnfinished() {
    auto arrived = [](const Membership& m) { return m.launched >= 0 ? m.launched : m.issued; };
    for (const auto& places : places_) {
      int64_t least = INT64_MAX;
      for (const Place& p : places) {
        if (const int64_t a = arrived(At(p)); a != kUnknown) least = std::min(least, std::max<int64_t>(a, 0));
      }
      for (const Place& p : places) {
        if (arrived(At(p)) <= least) continue;
        slots_[p.slot].plan->needs.push_back({{p.membership, Direction::kCollective, 0}, least + 1, least + 1});
      }
    }
    for (uint32_t s = 0; s < slots_.size(); ++s) {
      const auto& memberships = slots_[s].read->loose.rank.memberships;
      for (uint32_t i = 0; i < memberships.size(); ++i) {
        for (const PeerCount& own : memberships[i].peers) {
          const Place* peer = FindMember(comm_of_[slots_[s].first_comm + i], own.peer);
          if (peer == nullptr) continue;
          int64_t sent = 0, received = 0;
          for (const PeerCount& theirs : At(*peer).peers) {
            if (theirs.peer == memberships[i].member_rank) sent = theirs.sends, received = theirs.recvs;
          }
          auto& needs = slots_[s].plan->needs;
          if (own.recvs > sent) needs.push_back({{i, Direction::kRecv, own.peer}, sent + 1, sent + 1});
          if (own.sends > received) needs.push_back({{i, Direction::kSend, own.peer}, received + 1, received + 1});
        }
      }
    }
  }

  void Need(const Place& place, Direction direction, int32_t peer, std::pair<int64_t, int64_t> numbers) {
    const auto size = static_cast<uint64_t>(numbers.second - numbers.first + 1);
    if (room_ < size) {
      short_ = true;
      return;
    }
    room_ -= size;
    slots_[place.slot].plan->needs.push_back({{place.membership, direction, peer}, numbers.first, numbers.second});
  }

  void NeedAll(uint32_t slot) {
    LsdPlan* plan = slots_[slot].plan;
    const uint64_t size = slots_[slot].read->recorded;
    if (plan->newest >= size) return;
    if (room_ < size) {
      short_ = true;
      return;
    }
    room_ -= size;
    plan->newest = SIZE_MAX;
  }

  void CompareMembers() {
    std::vector<std::pair<uint32_t, std::pair<int64_t, int64_t>>> differing;  // communicator, first numbers that differ
    std::vector<Line> lines;
    for (uint32_t c = 0; c < places_.size(); ++c) {
      lines.clear();
      bool differ = false;
      for (uint32_t p = 0; p < places_[c].size(); ++p) {
        const Place& place = places_[c][p];
        const History& history = slots_[place.slot].read->history;
        const LaneHistory* lane = history.Find({place.membership});
        if (lane == nullptr) continue;
        lines.push_back(CallsOf(history, *lane, p));
        differ |= Differ(lines[0], lines.back());
      }
      // Members that have nothing in common with the first one are compared with each other.
      if (!differ) differ = NeighboursDiffer(lines);
      if (!differ) continue;
      const std::vector<Entry> entries = ByPlace(lines);
      for (size_t i = 1; i < entries.size(); ++i) {
        const Entry &x = entries[i - 1], &y = entries[i];
        if (x.first != y.first || x.last != y.last || x.hash == y.hash) continue;
        differing.push_back({c, {y.first, y.last}});
        break;
      }
    }
    differing_ = differing.size();
    absl::flat_hash_map<uint64_t, std::vector<uint32_t>> siblings;
    if (!differing.empty()) {
      for (uint32_t c = 0; c < classes_.size(); ++c) {
        siblings[classes_[c]].push_back(c);
      }
    }
    for (const auto& [comm, numbers] : differing) {
      for (const Place& p : places_[comm]) Need(p, Direction::kCollective, 0, numbers);
    }
    for (const auto& [comm, numbers] : differing) {
      if (places_[comm].size() <= kFullMembers) {
        for (const Place& p : places_[comm]) NeedAll(p.slot);
      }
      size_t others = 0;
      for (uint32_t sibling : siblings[classes_[comm]]) {
        if (sibling == comm) continue;
        if (others++ == kSiblings) break;
        for (size_t i = 0; i < std::min(kSiblingMembers, places_[sibling].size()); ++i)
          Need(places_[sibling][i], Direction::kCollective, 0, numbers);
      }
    }
  }

  // Returns whether any two consecutive lines differ. Skips the first line, which the caller compares with all others.
  static bool NeighboursDiffer(const std::vector<Line>& lines) {
    for (size_t i = 2; i < lines.size(); ++i) {
      if (Differ(lines[i - 1], lines[i])) return true;
    }
    return false;
  }

  // Compares sends with their receives.
  void ComparePairs() {
    for (uint32_t s = 0; s < slots_.size(); ++s) {
      const History& history = slots_[s].read->history;
      for (const LaneHistory& lane : history.lanes) {
        if (lane.direction != Direction::kSend) continue;
        const Membership& own = slots_[s].read->loose.rank.memberships[lane.membership];
        const Place* peer = FindMember(comm_of_[slots_[s].first_comm + lane.membership], lane.peer);
        if (peer == nullptr) continue;
        const History& theirs = slots_[peer->slot].read->history;
        const LaneHistory* other = theirs.Find({peer->membership, Direction::kRecv, own.member_rank});
        if (other == nullptr) continue;
        const auto numbers = FirstDifference(CallsOf(history, lane, 0), CallsOf(theirs, *other, 0));
        if (numbers.second < 0) continue;
        ++differing_;
        Need({s, lane.membership, 0}, Direction::kSend, lane.peer, numbers);
        Need(*peer, Direction::kRecv, own.member_rank, numbers);
      }
    }
  }

  // Ranks with the same role run the same program; the reference is what most ranks ran.
  void ComparePrograms() {
    // Lines by role and class of communicator.
    std::vector<std::pair<uint64_t, Line>> all;
    for (uint32_t s = 0; s < slots_.size(); ++s) {
      const LsdFile::ReadRank& read = *slots_[s].read;
      const auto& memberships = read.loose.rank.memberships;
      std::vector<uint64_t> role;
      for (uint32_t i = 0; i < memberships.size(); ++i) role.push_back(classes_[comm_of_[slots_[s].first_comm + i]]);
      for (const LaneHistory& lane : read.history.lanes) {
        if (lane.direction == Direction::kCollective) continue;
        // The member rank is part of the role, because pipeline stages have different orders of calls.
        const int32_t place = memberships[lane.membership].member_rank;
        role.push_back(
            CombineHashes(CombineHashes(CombineHashes(role[lane.membership], static_cast<uint64_t>(lane.direction)),
                                        static_cast<uint64_t>(int64_t{lane.peer} - place)),
                          static_cast<uint64_t>(place)));
      }
      std::vector<uint64_t> sorted = role;
      std::sort(sorted.begin(), sorted.end());
      uint64_t key = 0;
      for (uint64_t part : sorted) key = CombineHashes(key, part);
      for (const LaneHistory& lane : read.history.lanes) {
        if (lane.direction != Direction::kCollective || lane.blocks == 0) continue;
        all.push_back({CombineHashes(key, role[lane.membership]),
                       {{read.history.program.data() + lane.begin, lane.first_block, lane.blocks}, {}, {}, s}});
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Line> lines;
    for (size_t i = 0; i < all.size();) {
      lines.clear();
      bool differ = false;
      for (const uint64_t key = all[i].first; i < all.size() && all[i].first == key; ++i) {
        lines.push_back(all[i].second);
        differ |= Differ(lines[0], lines.back());
      }
      if (lines.size() < 3) continue;
      if (!differ) differ = NeighboursDiffer(lines);
      if (differ) LoadOdd(ByPlace(lines));
    }
  }

  void LoadOdd(const std::vector<Entry>& entries) {
    std::vector<uint32_t> odd, witnesses;
    for (size_t i = 0; i < entries.size() && odd.size() < kOddRanks;) {
      size_t end = i, most = i, count = 0;
      std::vector<std::pair<size_t, size_t>> runs;  // ranges with one hash
      while (end < entries.size() && entries[end].first == entries[i].first) {
        const size_t begin = end;
        while (end < entries.size() && entries[end].first == entries[i].first &&
               entries[end].hash == entries[begin].hash)
          ++end;
        runs.emplace_back(begin, end);
        if (end - begin > count) count = end - begin, most = begin;
      }
      for (const auto& [begin, stop] : runs) {
        if (begin == most || 4 * (stop - begin) > count) continue;
        for (size_t k = begin; k < stop && odd.size() < kOddRanks; ++k) odd.push_back(entries[k].who);
        for (size_t k = 0; k < kWitnesses && most + k < most + count; ++k) witnesses.push_back(entries[most + k].who);
      }
      i = end;
    }
    for (auto* list : {&odd, &witnesses}) {
      SortUnique(list);
      for (size_t k = 0; k < list->size(); ++k) NeedAll((*list)[k]);
    }
    odd_ranks_ += odd.size();
  }

  void Say(uint64_t total, uint64_t newest) {
    bool compared = true;
    for (const Slot& slot : slots_) compared &= slot.read->loose.rank.source != Source::kFlightRecorder;
    choice_.note =
        absl::StrCat("of ", total, " recorded operations, about the newest ", newest, " of each rank were loaded; ",
                     compared ? "the older ones were compared by their hashes: "
                              : "the older ones were compared by their hashes, if they have any: ");
    if (differing_ == 0 && odd_ranks_ == 0) {
      choice_.note += "no differences";
      return;
    }
    absl::StrAppend(&choice_.note, "differences on ", differing_,
                    differing_ == 1 ? " communicator or pair" : " communicators or pairs", ", and ", odd_ranks_,
                    odd_ranks_ == 1 ? " rank whose program differs from most in its role"
                                    : " ranks whose program differs from most in their role",
                    ", were loaded too");
    if (short_) choice_.note += ", up to the limit on loaded operations";
  }

  const std::vector<std::unique_ptr<LsdFile>>& files_;
  const LoadLimits limits_;
  LoadChoice choice_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> comm_of_;           // indexed by slot and membership
  std::vector<uint64_t> classes_;           // indexed by communicator
  std::vector<std::vector<Place>> places_;  // indexed by communicator and member rank
  uint64_t room_ = 0;
  size_t differing_ = 0, odd_ranks_ = 0;
  bool short_ = false;
};

}  // namespace

uint64_t CountOperations(const std::vector<std::unique_ptr<LsdFile>>& files) {
  uint64_t total = 0;
  for (const auto& file : files) {
    for (const LsdFile::ReadRank& read : file->ranks()) total += read.recorded;
  }
  return total;
}

LoadChoice ChooseOperations(const std::vector<std::unique_ptr<LsdFile>>& files, const LoadLimits& limits) {
  return Chooser(files, limits).Choose();
}

}  // namespace lockstep
