#include "analyzer/model/rank_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "proto/view.pb.h"
#include "proto/wire.pb.h"

namespace lockstep {
namespace {

std::set<int32_t> Plain(const Ranks& ranks) {
  const std::vector<int32_t> list = ranks.List();
  return {list.begin(), list.end()};
}

TEST(RankSet, BehavesLikePlainSets) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; round++) {
    std::set<int32_t> a, b;
    Ranks x, y;
    for (int i = 0; i < 30; i++) {
      const auto first = static_cast<int32_t>(random() % 120);
      const auto last = first + static_cast<int32_t>(random() % 4);
      (i % 2 ? x : y).AddRun(first, last);
      for (int32_t rank = first; rank <= last; rank++) (i % 2 ? a : b).insert(rank);
    }
    ASSERT_EQ(Plain(x), a);
    EXPECT_EQ(x.size(), a.size());
    EXPECT_EQ(x, Ranks::Of({a.begin(), a.end()}));
    std::set<int32_t> common, united = a, less = a;
    united.insert(b.begin(), b.end());
    for (const int32_t rank : b) {
      if (a.count(rank)) common.insert(rank);
      less.erase(rank);
    }
    EXPECT_EQ(Plain(x.Common(y)), common);
    EXPECT_EQ(x.Intersects(y), !common.empty());
    EXPECT_EQ(x.ContainsAll(y), common.size() == b.size());
    EXPECT_TRUE(x.ContainsAll(x.Common(y)));
    for (int32_t rank = -1; rank < 130; rank++) EXPECT_EQ(x.Contains(rank), a.count(rank) == 1);
    Ranks sum = x, rest = x;
    sum.Unite(y);
    rest.Subtract(y);
    EXPECT_EQ(Plain(sum), united);
    EXPECT_EQ(Plain(rest), less);
    RankSet message;
    sum.To(&message);
    const auto back = Ranks::From(message);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, sum);
  }
}

TEST(RankSet, RefusesHostileMessages) {
  const auto refused = [](std::vector<std::pair<int32_t, int32_t>> runs) {
    RankSet message;
    for (const auto& [first, last] : runs) {
      message.add_first(first);
      message.add_last(last);
    }
    return !Ranks::From(message).ok();
  };
  EXPECT_TRUE(refused({{-1, 3}}));
  EXPECT_TRUE(refused({{5, 3}}));
  EXPECT_TRUE(refused({{0, 3}, {3, 4}}));
  EXPECT_TRUE(refused({{8, 9}, {0, 3}}));
  EXPECT_TRUE(refused({{0, 0x7fffffff}}));
  EXPECT_FALSE(refused({{0, kMostRank}}));
  RankSet uneven;
  uneven.add_first(1);
  EXPECT_FALSE(Ranks::From(uneven).ok());
  RankSet many;
  for (int32_t i = 0; i <= static_cast<int32_t>(kMostRankRuns); i++) {
    many.add_first(2 * i);
    many.add_last(2 * i);
  }
  EXPECT_FALSE(Ranks::From(many).ok());
  // Adjacent runs are valid and become one.
  RankSet touching;
  for (int32_t i = 0; i < 4; i++) {
    touching.add_first(i);
    touching.add_last(i);
  }
  EXPECT_EQ(Ranks::From(touching)->runs().size(), 1u);
}

TEST(RankSet, TakesRunsOfAnIndexInAnyOrder) {
  RankRuns runs;
  for (int32_t bound : {5, 9, 0, 6, 3, 1, kMostRank - 1, INT32_MAX, INT32_MAX, INT32_MAX, 7}) runs.add_bounds(bound);
  EXPECT_EQ(Ranks::Of(runs).runs(), (std::vector<Ranks::Run>{{0, 9}, {kMostRank - 1, kMostRank}}));
}

TEST(RankSet, PrintsCompactly) {
  EXPECT_EQ(Ranks({0, 1, 2, 3, 5, 7, 8}).Text(), "0-3, 5, 7, 8");
  EXPECT_EQ(Ranks({0, 2, 4, 6}).Text(2), "0, 2 and 2 more");
  EXPECT_EQ(Ranks().Text(), "");
  Ranks clipped;
  clipped.AddRun(-5, 1);
  clipped.AddRun(kMostRank, 0x7fffffff);
  EXPECT_EQ(clipped.size(), 3u);
}

}  // namespace
}  // namespace lockstep
