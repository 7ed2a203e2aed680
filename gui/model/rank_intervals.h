// A set of global ranks as intervals, for selections, filters and tree nodes.
#pragma once

#include <QString>

#include <cstdint>
#include <utility>
#include <vector>

#include "proto/view.pb.h"

namespace lockstep::gui {

// A value. Intervals are ascending, disjoint and not adjacent, with inclusive bounds.
class RankIntervals {
 public:
  RankIntervals() = default;
  static RankIntervals Of(int32_t first, int32_t last);
  static RankIntervals Of(std::vector<int32_t> ranks);  // any order, duplicates allowed
  static RankIntervals Of(const RankRuns& runs);        // accepts untrusted input: sorts runs that are not ascending

  bool empty() const { return runs_.empty(); }
  int64_t size() const;  // number of ranks
  bool Contains(int32_t rank) const;
  bool Intersects(int32_t first, int32_t last) const;
  int32_t first() const { return runs_.empty() ? -1 : runs_.front().first; }
  const std::vector<std::pair<int32_t, int32_t>>& runs() const { return runs_; }
  void Add(int32_t first, int32_t last);
  RankIntervals Union(const RankIntervals& other) const;
  RankIntervals Intersection(const RankIntervals& other) const;
  RankIntervals Minus(const RankIntervals& other) const;
  std::vector<int32_t> Ranks(size_t limit) const;  // the first `limit` ranks
  // "0-3, 6"; truncated to about `columns`, with the total number.
  QString Text(int columns = 60) const;
  bool operator==(const RankIntervals&) const = default;

 private:
  std::vector<std::pair<int32_t, int32_t>> runs_;
};

}  // namespace lockstep::gui
