#include "analyzer/formats/load/join_calls.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "analyzer/model/call_kinds.h"

namespace lockstep {
namespace {

using ring::CallKind;

// Maximum number of comparisons in the search for one communicator's shift.
constexpr int64_t kMaxComparisons = 20'000'000;

bool IsOwnCollective(const Op& op) {
  return op.seq >= 1 && op.kind != CallKind::kGroup && !ring::IsPointToPoint(op.kind) && op.state != OpState::kFailed;
}

// Returns whether an entry is numbered among its group's collectives.
bool IsCollectiveEntry(const Op& op) {
  return op.seq >= 0 && op.kind != CallKind::kGroup && !ring::IsPointToPoint(op.kind);
}

bool IsCounted(const Op& op, bool split) { return !op.batch_end && !(split && CallFactsOf(op.kind).may_be_sends); }

// Returns the count that Lockstep's own record would contain; -1 if unknown.
int64_t CountOf(const Op& entry) {
  const CallFacts::Side side = CallFactsOf(entry.kind).counted;
  return side == CallFacts::Side::kInput    ? entry.input_elements
         : side == CallFacts::Side::kOutput ? entry.output_elements
                                            : -1;
}

// Returns whether two calls with the same number on two ranks of one source agree.
bool SameOnBoth(const Op& a, const Op& b) { return a.kind == b.kind && a.count == b.count && CountOf(a) == CountOf(b); }

// Returns the number of calls that agree with this shift; -1 if any call contradicts it.
int64_t Agreeing(const CallTable& own, const CallTable& entries, int64_t by, int64_t* comparisons) {
  auto mine = own.calls.lower_bound(entries.calls.begin()->first + by);
  if (mine == own.calls.end()) return 0;
  auto theirs = entries.calls.lower_bound(mine->first - by);
  int64_t agreeing = 0;
  while (mine != own.calls.end() && theirs != entries.calls.end()) {
    if (mine->first < theirs->first + by) {
      ++mine;
      continue;
    }
    if (mine->first > theirs->first + by) {
      ++theirs;
      continue;
    }
    --*comparisons;
    const Op *op = mine->second.op(), *entry = theirs->second.op();
    if (op != nullptr && entry != nullptr) {
      if (!SameCall(*op, *entry)) return -1;
      ++agreeing;
    }
    ++mine;
    ++theirs;
  }
  return agreeing;
}

}  // namespace

bool SameCall(const Op& own, const Op& entry) {
  if (entry.kind == CallKind::kOtherCollective || own.kind == CallKind::kOtherCollective) return true;
  // PyTorch implements a barrier as an all-reduce.
  if (entry.kind == CallKind::kBarrier) return own.kind == CallKind::kAllReduce || own.kind == CallKind::kBarrier;
  if (own.kind != entry.kind) return false;
  const int64_t count = CountOf(entry);
  // Complex numbers are passed as twice as many real numbers.
  return own.count < 0 || count < 0 || own.count == count || own.count == 2 * count;
}

int64_t CallTable::PositionOf(int64_t number) const {
  if (number < 0 || from_birth) return number;
  auto at = positions.upper_bound(number);
  if (at == positions.begin()) return kUnknown;
  // The launch's last call is the one before the next launch's first.
  if (at != positions.end()) return at->second - 1;
  return !calls.empty() && positions.rbegin()->first == number ? calls.rbegin()->first : kUnknown;
}

void Witnessed::Add(const Op& op) {
  for (int i = 0; i < 2; ++i) {
    if (ops_[i] == nullptr) ops_[i] = &op;
    if (!SameOnBoth(*ops_[i], op)) continue;
    ++votes_[i];
    return;
  }
  ++others_;
}

const Op* Witnessed::op() const {
  for (int i = 0; i < 2; ++i) {
    if (votes_[i] > votes_[1 - i] + others_) return ops_[i];
  }
  return nullptr;
}

CallIndex::CallIndex(const Bundle& of) : bundle(of), uses(of.comms.size()), ops(of.ranks.size()) {
  for (uint32_t r = 0; r < bundle.ranks.size(); ++r) {
    const Rank& rank = bundle.ranks[r];
    ops[r].resize(rank.memberships.size());
    for (uint32_t m = 0; m < rank.memberships.size(); ++m) uses[rank.memberships[m].comm].push_back({r, m});
    for (uint32_t i = 0; i < rank.ops.size(); ++i) {
      if (rank.ops[i].membership != kNoIndex) ops[r][rank.ops[i].membership].push_back(i);
    }
  }
}

CallTable OwnCalls(const CallIndex& own, uint32_t comm) {
  CallTable table;
  for (const CallIndex::Use& use : own.uses[comm]) {
    for (uint32_t i : own.OpsOf(use)) {
      const Op& op = own.bundle.ranks[use.rank].ops[i];
      if (!IsOwnCollective(op)) continue;
      table.calls[op.seq].Add(op);
    }
  }
  return table;
}

CallTable EntryCalls(const CallIndex& dump, uint32_t comm, bool split) {
  CallTable table;
  // A launch, with its number of calls. A rank's oldest launch may be incomplete, so the number is the maximum over
  // ranks.
  struct Launch {
    int64_t calls = 0;
    bool differ = false;    // complete on several ranks, but with different numbers of calls
    bool only_end = false;  // a dump contains the end of a batch, but none of its calls
  };
  std::map<int64_t, Launch> launches;
  bool only_active = false;
  for (const CallIndex::Use& use : dump.uses[comm]) {
    const Rank& rank = dump.bundle.ranks[use.rank];
    table.first_number = std::min(table.first_number, rank.memberships[use.membership].first_seq);
    only_active |= rank.only_active;
    // By launch number: the number of calls, and whether the end of a batch is recorded.
    std::map<int64_t, std::pair<int64_t, bool>> here;
    for (uint32_t i : dump.OpsOf(use)) {
      const Op& op = rank.ops[i];
      if (!IsCollectiveEntry(op)) continue;
      auto& [calls, end] = here[op.seq];
      calls += IsCounted(op, split) ? 1 : 0;
      end |= op.batch_end;
    }
    bool oldest = true;
    for (const auto& [number, seen] : here) {
      auto [at, added] = launches.try_emplace(number);
      Launch& launch = at->second;
      if (!added && !oldest && launch.calls != seen.first && launch.calls > 0) launch.differ = true;
      launch.calls = std::max(launch.calls, seen.first);
      launch.only_end |= seen.second && seen.first == 0 && !oldest;
      oldest = false;
    }
  }
  for (const auto& [number, launch] : launches)
    table.from_birth = table.from_birth && launch.calls == 1 && !launch.differ;
  int64_t next = launches.empty() ? 0 : launches.begin()->first;
  int64_t last = next - 1;
  for (const auto& [number, launch] : launches) {
    if (table.from_birth) {
      next = number;
    } else if (launch.only_end && launch.calls == 0) {
      table.refused = "its coalesced batches were recorded without their members";
    } else if (launch.differ) {
      table.refused = absl::StrCat("ranks recorded different numbers of calls in launch ", number);
    } else if (only_active || number != last + 1) {
      table.refused = "some of its coalesced batches are missing between others";
    }
    table.positions[number] = next;
    next += launch.calls;
    last = number;
  }
  for (const CallIndex::Use& use : dump.uses[comm]) {
    const Rank& rank = dump.bundle.ranks[use.rank];
    for (const auto& [position, op] : EntryPositions(dump, use, table, split)) {
      table.calls[position].Add(rank.ops[op]);
    }
  }
  return table;
}

std::vector<std::pair<int64_t, uint32_t>> EntryPositions(const CallIndex& dump, const CallIndex::Use& use,
                                                         const CallTable& table, bool split) {
  const Rank& rank = dump.bundle.ranks[use.rank];
  std::vector<std::pair<int64_t, uint32_t>> out;
  struct Launch {
    int64_t calls = 0, taken = 0;
  };
  std::map<int64_t, Launch> launches;
  for (uint32_t i : dump.OpsOf(use)) {
    const Op& op = rank.ops[i];
    if (IsCollectiveEntry(op) && IsCounted(op, split)) ++launches[op.seq].calls;
  }
  for (uint32_t i : dump.OpsOf(use)) {
    const Op& op = rank.ops[i];
    if (!IsCollectiveEntry(op) || !IsCounted(op, split)) continue;
    auto at = table.positions.find(op.seq);
    if (at == table.positions.end()) continue;
    // If the dump has lost an unknown part of this launch, all of the launch is omitted.
    Launch& launch = launches[op.seq];
    auto next = std::next(at);
    if (!table.from_birth && next != table.positions.end() && next->second - at->second != launch.calls) continue;
    out.emplace_back(at->second + launch.taken++, i);
  }
  return out;
}

Shift FindShift(const CallTable& own, const CallTable& entries, const std::vector<std::pair<int64_t, int64_t>>& ends) {
  Shift out;
  if (!entries.refused.empty()) {
    out.why_not = entries.refused;
    return out;
  }
  if (own.calls.empty() || entries.calls.empty()) {
    out.why_not = "no call of the group is in both records";
    return out;
  }
  int64_t comparisons = kMaxComparisons;
  // If both sources count from the group's creation, and the calls agree with these numbers, no other alignment is
  // possible.
  if (entries.from_birth) {
    const int64_t by = 1 - entries.first_number;
    if (const int64_t agreeing = Agreeing(own, entries, by, &comparisons); agreeing > 0)
      return {true, by, agreeing, ""};
  }
  const int64_t own_first = own.calls.begin()->first, own_last = own.calls.rbegin()->first;
  const int64_t first = entries.calls.begin()->first, last = entries.calls.rbegin()->first;
  // Similar ends alone are not enough: at least half of the shorter record must be in both.
  const auto shorter = static_cast<int64_t>(std::min(own.calls.size(), entries.calls.size()));
  const int64_t needed = std::max<int64_t>(std::min<int64_t>(shorter, 3), (shorter + 1) / 2);
  std::vector<std::pair<int64_t, int64_t>> fits;  // shift, number of calls that agree
  for (int64_t by = own_first - last + needed - 1; by <= own_last - first - needed + 1; ++by) {
    if (comparisons <= 0) {
      out.why_not = "its calls are too similar to be matched";
      return out;
    }
    if (const int64_t agreeing = Agreeing(own, entries, by, &comparisons); agreeing >= needed)
      fits.emplace_back(by, agreeing);
  }
  if (fits.empty()) {
    out.why_not = "the calls in the two records do not match in the same order";
    return out;
  }
  if (fits.size() == 1) return {true, fits[0].first, fits[0].second, ""};
  std::set<int64_t> shifts, places;
  for (const auto& [number, position] : ends) {
    shifts.insert(number - position);
    places.insert(number);
  }
  if (shifts.size() == 1 && places.size() > 1) {
    for (const auto& [by, agreeing] : fits) {
      if (by == *shifts.begin()) return {true, by, agreeing, ""};
    }
  }
  out.why_not = absl::StrCat("its calls repeat and match in ", fits.size(), " ways");
  return out;
}

}  // namespace lockstep
