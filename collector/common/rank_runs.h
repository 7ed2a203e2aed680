// Sets of ranks as ascending, inclusive runs with gaps between them: [first, last]. Heartbeats contain them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"

namespace lockstep {

struct RankRun {
  int32_t first = 0, last = -1;
  bool operator==(const RankRun&) const = default;
};
using RankRuns = absl::InlinedVector<RankRun, 2>;

// Takes any numbers in any order, with or without duplicates.
RankRuns RunsOf(std::vector<int32_t> ranks);
RankRuns Union(const RankRuns& a, const RankRuns& b);
// The same for runs in any order, possibly overlapping.
RankRuns Merge(std::vector<RankRun> runs);
RankRuns Difference(const RankRuns& a, const RankRuns& b);  // ranks of a that are not in b
// Returns the ranks one by one, at most `limit`.
std::vector<int32_t> RanksOf(const RankRuns& runs, size_t limit = SIZE_MAX);
size_t CountOf(const RankRuns& runs);
bool Contains(const RankRuns& runs, int32_t rank);
// "0-7, 9, 12-15"; "and N more" after `limit` runs.
std::string RunsText(const RankRuns& runs, size_t limit = 8);

}  // namespace lockstep
