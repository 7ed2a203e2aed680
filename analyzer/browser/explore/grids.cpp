#include "analyzer/browser/explore/grids.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/parallel.h"
#include "analyzer/viewdata/parts.h"

namespace lockstep {
namespace {

constexpr size_t kMostLanes = 40;
constexpr int64_t kMostColumns = 4096;
constexpr size_t kMostRuns = 200'000;  // in one grid; a larger grid keeps only its newest columns

std::string LaneName(const Communicator& comm) {
  std::string label = CommLabel(comm);
  if (label.size() == 16 && label.find_first_not_of("0123456789abcdef") == std::string::npos)
    return absl::StrCat("unnamed, ", comm.size, " members");
  const size_t digits = label.find_last_not_of("0123456789") + 1;
  return digits < label.size() ? label.substr(0, digits) + "*" : label;
}

// A row of a lane while it is being built.
struct LaneRow {
  int64_t first = std::numeric_limits<int64_t>::max(), last = -1;  // sequence numbers
  std::vector<uint8_t> states;

  void Reach(int64_t number) { last = std::max(last, number); }
};

struct RowPattern {
  size_t grid = 0;
  PageGrid::Pattern pattern;
};

PageGrid::Pattern PatternOf(int64_t first, const std::vector<uint8_t>& states) {
  PageGrid::Pattern pattern{first, {}};
  for (const uint8_t state : states) {
    if (pattern.runs.empty() || pattern.runs.back().state != state) pattern.runs.push_back({0, state});
    ++pattern.runs.back().length;
  }
  return pattern;
}

class RowMaker {
 public:
  RowMaker(const Bundle& bundle, const ViewFacts& facts, const Lanes& lanes, const CallSource& source)
      : bundle_(bundle), lanes_(lanes), source_(source), states_(bundle, facts) {
    if (facts.verdict().findings_size() > 0) {
      const auto& ranks = facts.verdict().findings(0).culprit_ranks();
      culprits_.insert(ranks.begin(), ranks.end());
    }
    newest_.assign(bundle.comms.size(), -1);
    for (const Rank& rank : bundle.ranks) {
      for (const Membership& m : rank.memberships) {
        if (m.comm < newest_.size()) newest_[m.comm] = std::max(newest_[m.comm], m.issued);
      }
    }
  }

  // Buffers that a worker reuses for each rank.
  struct Space {
    std::vector<PageCall> calls;
    std::vector<int32_t> lane_of;  // indexed by membership
    std::vector<LaneRow> rows;     // indexed by lane
    std::vector<uint8_t> states;   // indexed by call
  };

  void Make(size_t rank, Space* space, std::vector<RowPattern>* out) const {
    const std::vector<Membership>& memberships = bundle_.ranks[rank].memberships;
    source_.Get(rank, &space->calls);
    space->rows.assign(lanes_.names.size(), {});
    space->lane_of.clear();
    for (const Membership& m : memberships) {
      const int32_t lane = m.comm < lanes_.of_comm.size() ? lanes_.of_comm[m.comm] : -1;
      space->lane_of.push_back(lane);
      if (lane >= 0) space->rows[static_cast<size_t>(lane)].Reach(newest_[m.comm]);
    }
    space->states.clear();
    for (const PageCall& call : space->calls) {
      space->states.push_back(static_cast<uint8_t>(states_.Of(rank, call)));
      if (LaneRow* row = RowOf(call, space)) {
        row->first = std::min(row->first, call.seq);
        row->Reach(call.seq);
      }
    }
    const size_t kept = std::min(space->calls.size(), static_cast<size_t>(kMostColumns));
    space->states.erase(space->states.begin(), space->states.end() - static_cast<ptrdiff_t>(kept));
    out->push_back({0, PatternOf(-static_cast<int64_t>(kept), space->states)});

    for (LaneRow& row : space->rows) {
      if (row.last < 0) continue;
      row.first = std::clamp(row.first, std::max<int64_t>(0, row.last - kMostColumns + 1), row.last);
      row.states.assign(static_cast<size_t>(row.last - row.first + 1), static_cast<uint8_t>(ViewState::kOutside));
    }
    for (size_t m = 0; m < memberships.size(); ++m) {
      if (const int32_t lane = space->lane_of[m]; lane >= 0)
        FillFromCounters(rank, memberships[m], &space->rows[static_cast<size_t>(lane)]);
    }
    for (size_t i = 0; i < kept; ++i) {
      const PageCall& call = space->calls[space->calls.size() - kept + i];
      LaneRow* row = RowOf(call, space);
      if (row != nullptr && call.seq >= row->first)
        row->states[static_cast<size_t>(call.seq - row->first)] = space->states[i];
    }
    for (size_t lane = 0; lane < space->rows.size(); ++lane) {
      const LaneRow& row = space->rows[lane];
      if (row.last >= 0) out->push_back({lane + 1, PatternOf(row.first, row.states)});
    }
  }

 private:
  static LaneRow* RowOf(const PageCall& call, Space* space) {
    if (call.seq < 0 || !ring::IsCollective(call.kind)) return nullptr;
    const int32_t lane = space->lane_of[call.membership];
    return lane < 0 ? nullptr : &space->rows[static_cast<size_t>(lane)];
  }

  // Fills the cells from counters, for calls without a record: overwritten, or missing although a peer made the call.
  void FillFromCounters(size_t rank, const Membership& m, LaneRow* row) const {
    const auto absent =
        culprits_.contains(bundle_.ranks[rank].rank) ? static_cast<uint8_t>(ViewState::kMissing) : kBehind;
    for (int64_t seq = row->first; seq <= std::min(row->last, newest_[m.comm]); ++seq) {
      row->states[static_cast<size_t>(seq - row->first)] =
          m.issued == kUnknown || seq <= m.issued ? static_cast<uint8_t>(ViewState::kOverwritten) : absent;
    }
  }

  const Bundle& bundle_;
  const Lanes& lanes_;
  const CallSource& source_;
  const CallStates states_;
  std::set<int32_t> culprits_;
  std::vector<int64_t> newest_;  // indexed by communicator: the newest number that any member's counter shows
};

// Drops everything before the column.
void DropBefore(int64_t column, PageGrid::Pattern* pattern) {
  size_t gone = 0;
  for (; gone < pattern->runs.size() && pattern->first < column; ++gone) {
    PageGrid::Run& run = pattern->runs[gone];
    const int64_t cut = std::min<int64_t>(run.length, column - pattern->first);
    pattern->first += cut;
    run.length = static_cast<uint16_t>(run.length - cut);
    if (run.length > 0) break;
  }
  pattern->runs.erase(pattern->runs.begin(), pattern->runs.begin() + static_cast<ptrdiff_t>(gone));
  pattern->first = std::max(pattern->first, column);
}

// Limits the grid's columns and runs. Afterwards columns count from 0.
void Place(bool in_program_order, PageGrid* grid) {
  int64_t first = std::numeric_limits<int64_t>::max(), last = -1;
  for (const PageGrid::Pattern& pattern : grid->patterns) {
    int64_t end = pattern.first;
    for (const PageGrid::Run& run : pattern.runs) end += run.length;
    first = std::min(first, pattern.first);
    last = std::max(last, end - 1);
  }
  if (grid->patterns.empty()) return;
  first = std::max(first, last - kMostColumns + 1);
  for (;; first = last - (last - first) / 2) {
    size_t runs = 0;
    for (PageGrid::Pattern& pattern : grid->patterns) {
      DropBefore(first, &pattern);
      runs += pattern.runs.size();
    }
    if (runs <= kMostRuns || last - first < 64) break;
  }
  for (PageGrid::Pattern& pattern : grid->patterns) pattern.first -= first;
  grid->columns = last - first + 1;
  grid->first_seq = in_program_order ? -1 : first;
}

}  // namespace

Lanes LanesOf(const Bundle& bundle) {
  Lanes lanes;
  std::map<std::string, int64_t> members;
  for (const Communicator& comm : bundle.comms) members[LaneName(comm)] += comm.size;
  for (const auto& [name, count] : members) lanes.names.push_back(name);
  std::stable_sort(lanes.names.begin(), lanes.names.end(),
                   [&](const std::string& a, const std::string& b) { return members[a] > members[b]; });
  if (lanes.names.size() > kMostLanes) lanes.names.resize(kMostLanes);
  absl::flat_hash_map<std::string, int32_t> place;
  for (size_t i = 0; i < lanes.names.size(); ++i) place[lanes.names[i]] = static_cast<int32_t>(i);
  for (const Communicator& comm : bundle.comms) {
    const auto found = place.find(LaneName(comm));
    lanes.of_comm.push_back(found == place.end() ? -1 : found->second);
  }
  return lanes;
}

std::vector<PageGrid> MakeGrids(const Bundle& bundle, const ViewFacts& facts, const Lanes& lanes,
                                const CallSource& calls) {
  const RowMaker maker(bundle, facts, lanes, calls);
  const size_t ranks = bundle.ranks.size();
  std::vector<std::vector<RowPattern>> rows(ranks);
  std::vector<RowMaker::Space> spaces(WorkerCount(ranks));
  Parallel(ranks, [&](size_t rank, size_t worker) { maker.Make(rank, &spaces[worker], &rows[rank]); });

  std::vector<PageGrid> grids(lanes.names.size() + 1);
  std::vector<absl::flat_hash_map<std::string, int32_t>> known(grids.size());
  for (PageGrid& grid : grids) grid.pattern_of.assign(ranks, -1);
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (RowPattern& row : rows[rank]) {
      PageGrid& grid = grids[row.grid];
      std::string key = absl::StrCat(row.pattern.first);
      for (const PageGrid::Run& run : row.pattern.runs) absl::StrAppend(&key, " ", run.length, " ", run.state);
      const auto [place, fresh] =
          known[row.grid].try_emplace(std::move(key), static_cast<int32_t>(grid.patterns.size()));
      if (fresh) grid.patterns.push_back(std::move(row.pattern));
      grid.pattern_of[rank] = place->second;
    }
  }
  for (size_t i = 0; i < grids.size(); ++i) Place(i == 0, &grids[i]);
  return grids;
}

}  // namespace lockstep
