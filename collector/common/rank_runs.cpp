#include "collector/common/rank_runs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

void Append(RankRun run, RankRuns* runs) {
  if (!runs->empty() && int64_t{run.first} <= int64_t{runs->back().last} + 1) {
    runs->back().last = std::max(runs->back().last, run.last);
  } else {
    runs->push_back(run);
  }
}

}  // namespace

RankRuns RunsOf(std::vector<int32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  RankRuns runs;
  for (int32_t rank : ranks) Append({rank, rank}, &runs);
  return runs;
}

RankRuns Union(const RankRuns& a, const RankRuns& b) {
  RankRuns runs;
  runs.reserve(std::max(a.size(), b.size()));
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const bool first = j == b.size() || (i < a.size() && a[i].first <= b[j].first);
    Append(first ? a[i++] : b[j++], &runs);
  }
  return runs;
}

RankRuns Merge(std::vector<RankRun> all) {
  std::sort(all.begin(), all.end(), [](const RankRun& a, const RankRun& b) { return a.first < b.first; });
  RankRuns runs;
  for (const RankRun& run : all) Append(run, &runs);
  return runs;
}

RankRuns Difference(const RankRuns& a, const RankRuns& b) {
  RankRuns left;
  size_t j = 0;
  for (const RankRun& run : a) {
    int64_t from = run.first;
    while (j < b.size() && b[j].last < run.first) ++j;
    for (size_t k = j; k < b.size() && b[k].first <= run.last; ++k) {
      if (b[k].first > from) left.push_back({static_cast<int32_t>(from), b[k].first - 1});
      from = std::max<int64_t>(from, int64_t{b[k].last} + 1);
    }
    if (from <= run.last) left.push_back({static_cast<int32_t>(from), run.last});
  }
  return left;
}

std::vector<int32_t> RanksOf(const RankRuns& runs, size_t limit) {
  std::vector<int32_t> ranks;
  for (const RankRun& run : runs) {
    for (int64_t rank = run.first; rank <= run.last; ++rank) {
      if (ranks.size() >= limit) return ranks;
      ranks.push_back(static_cast<int32_t>(rank));
    }
  }
  return ranks;
}

size_t CountOf(const RankRuns& runs) {
  size_t count = 0;
  for (const RankRun& run : runs) count += static_cast<size_t>(int64_t{run.last} - run.first + 1);
  return count;
}

bool Contains(const RankRuns& runs, int32_t rank) {
  const auto after =
      std::upper_bound(runs.begin(), runs.end(), rank, [](int32_t r, const RankRun& run) { return r < run.first; });
  return after != runs.begin() && rank <= std::prev(after)->last;
}

std::string RunsText(const RankRuns& runs, size_t limit) {
  std::string text;
  size_t told = 0;
  for (size_t i = 0; i < runs.size() && i < limit; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", runs[i].first);
    if (runs[i].last != runs[i].first) absl::StrAppend(&text, "-", runs[i].last);
    told += static_cast<size_t>(int64_t{runs[i].last} - runs[i].first + 1);
  }
  if (runs.size() > limit) absl::StrAppend(&text, " and ", CountOf(runs) - told, " more");
  return text;
}

}  // namespace lockstep
