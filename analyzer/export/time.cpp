#include "analyzer/export/time.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/report/state.h"

namespace lockstep {
namespace {

// 64-bit nanoseconds end in the year 2262; half of that leaves room for sums.
constexpr int64_t kLatest = INT64_MAX / 2;

int64_t Bounded(int64_t value) { return std::clamp(value, -kLatest, kLatest); }

}  // namespace

bool Wanted(const ExportOptions& options, int32_t rank) {
  return options.ranks.empty() || std::any_of(options.ranks.begin(), options.ranks.end(), [rank](const auto& range) {
           return range.first <= rank && rank <= range.second;
         });
}

ExportTime::ExportTime(const Bundle& bundle, const Verdict& verdict) : bundle_(bundle) {
  absl::flat_hash_map<std::string, int64_t> aligned;
  for (const ClockOffset& clock : verdict.clocks()) {
    if (clock.uncertainty_ns() >= 0) aligned.emplace(clock.host(), Bounded(clock.offset_ns()));
  }
  const auto known = [&](const Rank& rank) {
    return aligned.find(rank.host.empty() ? absl::StrCat("rank ", rank.rank) : rank.host);
  };
  // Job time is the wall clock of the first host with offset 0.
  int64_t wall = 0;
  for (const Rank& rank : bundle.ranks) {
    auto it = known(rank);
    if (it == aligned.end() || it->second != 0) continue;
    wall = Bounded(rank.real_minus_mono_ns);
    break;
  }
  offset_.reserve(bundle.ranks.size());
  for (const Rank& rank : bundle.ranks) {
    auto it = known(rank);
    offset_.push_back(Bounded(it == aligned.end() ? Bounded(rank.real_minus_mono_ns) : it->second + wall));
  }
  for (size_t r = 0; r < bundle.ranks.size(); ++r) {
    for (const Op& op : bundle.ranks[r].ops) {
      for (int64_t own : {op.enter_ns, op.return_ns, op.started_ns, op.completed_ns}) {
        const int64_t at = ToJob(r, own);
        if (at == 0) continue;
        first_ = first_ == 0 ? at : std::min(first_, at);
        last_ = std::max(last_, at);
      }
    }
  }
  stop_ = last_;
  if (verdict.findings().empty()) return;
  int64_t earliest = INT64_MAX;
  for (const ChainLink& link : verdict.findings(0).chain()) {
    for (int32_t number : link.ranks()) {
      const Rank* rank = FindRank(bundle, number);
      if (rank == nullptr) continue;
      for (const Op& op : rank->ops) {
        const int64_t at = ToJob(static_cast<size_t>(rank - bundle.ranks.data()), op.enter_ns);
        if (IsInFlight(op.state) && at != 0) earliest = std::min(earliest, at);
      }
    }
    if (earliest != INT64_MAX) break;
  }
  if (earliest != INT64_MAX) stop_ = earliest;
}

int64_t ExportTime::ToJob(size_t rank_index, int64_t own_ns) const {
  if (own_ns <= 0 || own_ns > kLatest) return 0;
  const int64_t at = own_ns + offset_[rank_index];
  return at <= 0 || at > kLatest ? 0 : at;
}

int64_t ExportTime::Captured(size_t rank_index) const {
  const int64_t at = ToJob(rank_index, bundle_.ranks[rank_index].captured_ns);
  return at == 0 ? last_ : at;
}

bool ExportTime::Near(int64_t begin, int64_t end, const ExportOptions& options) const {
  if (options.around_stop_ns < 0 || begin == 0) return true;
  return (end == 0 || end >= stop_ - options.around_stop_ns) && begin <= stop_ + options.around_stop_ns;
}

}  // namespace lockstep
