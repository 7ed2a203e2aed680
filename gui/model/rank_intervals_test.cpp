#include "gui/model/rank_intervals.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace lockstep::gui {
namespace {

std::set<int32_t> AsSet(const RankIntervals& intervals) {
  const std::vector<int32_t> ranks = intervals.Ranks(SIZE_MAX);
  return {ranks.begin(), ranks.end()};
}

TEST(RankIntervalsTest, AgreesWithASetOfNumbers) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::set<int32_t> a, b;
    RankIntervals ia, ib;
    for (int i = 0; i < 12; ++i) {
      const int32_t first = static_cast<int32_t>(random() % 60), last = first + static_cast<int32_t>(random() % 6);
      const bool to_a = random() % 2 == 0;
      (to_a ? ia : ib).Add(first, last);
      for (int32_t r = first; r <= last; ++r) (to_a ? a : b).insert(r);
    }
    EXPECT_EQ(AsSet(ia), a);
    EXPECT_EQ(ia, RankIntervals::Of(std::vector<int32_t>(a.rbegin(), a.rend())));
    std::set<int32_t> both(a), common, rest;
    both.insert(b.begin(), b.end());
    for (int32_t r : a) (b.count(r) > 0 ? common : rest).insert(r);
    EXPECT_EQ(AsSet(ia.Union(ib)), both);
    EXPECT_EQ(AsSet(ia.Intersection(ib)), common);
    EXPECT_EQ(AsSet(ia.Minus(ib)), rest);
    for (int32_t r = -1; r < 70; ++r) EXPECT_EQ(ia.Contains(r), a.count(r) > 0);
    EXPECT_EQ(ia.size(), static_cast<int64_t>(a.size()));
  }
}

TEST(RankIntervalsTest, HostileRuns) {
  RankRuns runs;
  for (int32_t bound : {5, 9, 0, 6, 3, 1, INT32_MAX - 1, INT32_MAX, INT32_MAX, INT32_MAX, 7}) runs.add_bounds(bound);
  const RankIntervals intervals = RankIntervals::Of(runs);
  EXPECT_EQ(intervals.Text(), "0-9, 2147483646-2147483647");
  EXPECT_EQ(intervals.Ranks(3), (std::vector<int32_t>{0, 1, 2}));
}

TEST(RankIntervalsTest, LongTextsAreCut) {
  std::vector<int32_t> even;
  for (int32_t r = 0; r < 1000; r += 2) even.push_back(r);
  const QString text = RankIntervals::Of(even).Text(20);
  EXPECT_TRUE(text.endsWith(", .. (500 ranks)")) << text.toStdString();
  EXPECT_LT(text.size(), 50);
}

}  // namespace
}  // namespace lockstep::gui
