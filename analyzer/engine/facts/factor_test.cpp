#include "analyzer/engine/facts/factor.h"

#include <gtest/gtest.h>

#include <numeric>

namespace lockstep {
namespace {

// Eight hosts of four GPUs under switches of two hosts, racks of four.
Bundle Cluster() {
  Bundle bundle;
  for (int r = 0; r < 32; ++r) {
    Rank rank;
    rank.rank = r;
    rank.host = "node" + std::to_string(r / 4);
    rank.gpu_index = r % 4;
    bundle.ranks.push_back(rank);
  }
  for (int h = 0; h < 8; ++h) {
    bundle.places.push_back(
        {"node" + std::to_string(h), "rack" + std::to_string(h / 4), "leaf" + std::to_string(h / 2)});
  }
  return bundle;
}

std::vector<int32_t> Range(int first, int count, int stride = 1) {
  std::vector<int32_t> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

std::string Common(const Things& things, const std::vector<int32_t>& culprits) {
  const Things::Thing* thing = things.CommonTo(culprits);
  return thing == nullptr ? "none" : std::string(thing->kind) + " " + thing->name;
}

TEST(Factor, TheSmallestThingThatHoldsNearlyAllOfThem) {
  const Bundle bundle = Cluster();
  const Things things(bundle);
  EXPECT_EQ(Common(things, Range(4, 4)), "host node1");
  EXPECT_EQ(Common(things, {4, 5, 7}), "host node1");
  EXPECT_EQ(Common(things, Range(8, 8)), "switch leaf1");
  EXPECT_EQ(Common(things, Range(16, 16)), "rack rack1");
  EXPECT_EQ(Common(things, Range(2, 8, 4)), "rail 2");
}

// The n-th GPU of every host, however a job tells which it is.
TEST(Factor, RailsByIndexByAddressOrByNumberOnTheHost) {
  Bundle bundle = Cluster();
  for (Rank& rank : bundle.ranks) rank.gpu_index = 0;  // each process is shown its own GPU only
  EXPECT_EQ(Common(Things(bundle), Range(2, 8, 4)), "none");
  for (Rank& rank : bundle.ranks)
    rank.gpu_pci = "0000:" + std::string(1, static_cast<char>('1' + rank.rank % 4)) + "b:00.0";
  EXPECT_EQ(Common(Things(bundle), Range(2, 8, 4)), "rail 2");
  for (Rank& rank : bundle.ranks) rank.gpu_pci.clear(), rank.gpu_index = -1, rank.local_rank = rank.rank % 4;
  EXPECT_EQ(Common(Things(bundle), Range(3, 8, 4)), "rail 3");
  // Of two hosts a rail cannot be told from two ranks.
  std::erase_if(bundle.ranks, [](const Rank& rank) { return rank.rank >= 8; });
  EXPECT_EQ(Common(Things(bundle), {2, 6}), "none");
}

// Every operation that stands still goes from one switch to the other; a rank of the second left no data, as its rack
// shows.
TEST(Factor, TwoSwitchesThatExplainItEquallyAreNone) {
  Bundle bundle;
  for (int r = 0; r < 15; ++r) {
    Rank rank;
    rank.rank = r;
    rank.host = "node" + std::to_string(r / 4);
    bundle.ranks.push_back(rank);
  }
  for (int h = 0; h < 4; ++h) {
    const std::string half = std::to_string(h / 2);
    bundle.places.push_back({"node" + std::to_string(h), "rack" + half, "leaf" + half});
  }
  std::vector<std::vector<int32_t>> bad;
  for (int32_t r = 0; r < 7; ++r) bad.push_back({r, r + 8});
  const Crossing c = FindCrossing(bundle, Things(bundle), bad, {});
  EXPECT_EQ(c.thing, nullptr) << c.thing->kind << " " << c.thing->name;
}

TEST(Factor, ARailWhoseRingsAllStandStillWhileOtherRailsGoOn) {
  const Bundle bundle = Cluster();
  const Things things(bundle);
  // Rings of every second host on rail 1; the same on rail 0 is well, and so is what stays inside of hosts.
  const std::vector<std::vector<int32_t>> bad{Range(1, 4, 8), Range(5, 4, 8), {1, 5}},
      good{Range(0, 4, 8), Range(4, 4, 8), Range(4, 4), Range(8, 4)};
  Crossing c = FindCrossing(bundle, things, bad, good);
  ASSERT_NE(c.thing, nullptr);
  EXPECT_STREQ(c.thing->kind, "rail");
  EXPECT_EQ(c.thing->name, "1");
  EXPECT_TRUE(c.certain);
  EXPECT_EQ(c.ranks, Range(1, 8, 4));
  // A ring of that rail that is well: then it is not the rail.
  std::vector<std::vector<int32_t>> well = good;
  well.push_back({9, 13, 25});
  c = FindCrossing(bundle, things, bad, well);
  EXPECT_EQ(c.thing, nullptr);
  // Two rails at once: not one of them.
  c = FindCrossing(bundle, things, {Range(1, 4, 8), Range(6, 4, 8)}, good);
  EXPECT_TRUE(c.thing == nullptr || std::string(c.thing->kind) != "rail");
}

TEST(Factor, NothingWhereItIsNotSure) {
  const Bundle bundle = Cluster();
  const Things things(bundle);
  EXPECT_EQ(Common(things, {4}), "none");
  EXPECT_EQ(Common(things, {4, 5}), "none");           // half of a host
  EXPECT_EQ(Common(things, {3, 4, 5, 6, 7}), "none");  // one of five is elsewhere
  EXPECT_EQ(Common(things, Range(0, 32)), "none");     // everything
  EXPECT_EQ(Common(things, {0, 9, 18, 27}), "none");
}

TEST(Factor, HostsWithoutNamesHaveNone) {
  Bundle bundle = Cluster();
  for (Rank& rank : bundle.ranks) rank.host.clear(), rank.gpu_index = -1;
  const Things things(bundle);
  EXPECT_TRUE(things.things.empty());
  EXPECT_EQ(Common(things, {4, 5, 6, 7}), "none");
}

TEST(Factor, ASwitchWhereItsHostsHaveNothingElseInCommon) {
  const Bundle bundle = Cluster();
  const Things things(bundle);
  // Hosts 2 and 3 are under leaf1.
  const Crossing c =
      FindCrossing(bundle, things, {{8, 16}, {13, 0}, {9, 28}, {14, 20}}, {{0, 16}, {1, 29}, {17, 21}, {2, 6}});
  ASSERT_NE(c.thing, nullptr);
  EXPECT_EQ(c.thing->name, "leaf1");
}

// What crosses two switches stands still at either; that one has a rank less with data makes it no likelier.
TEST(Factor, OfTwoSwitchesThatExplainItEquallyNeitherIsNamed) {
  Bundle bundle = Cluster();
  bundle.ranks[16].host.clear();
  const Things things(bundle);
  const Crossing c = FindCrossing(bundle, things, {{8, 17}, {13, 20}, {9, 22}, {14, 18}}, {});
  EXPECT_EQ(c.thing, nullptr);
}

TEST(Factor, ARackWithItsOwnSwitchIsTheSwitch) {
  Bundle bundle = Cluster();
  for (HostPlace& place : bundle.places) place.rack = "r" + place.leaf_switch;
  const Things things(bundle);
  const Crossing c = FindCrossing(bundle, things, {{8, 16}, {13, 0}, {9, 28}, {14, 20}}, {});
  ASSERT_NE(c.thing, nullptr);
  EXPECT_STREQ(c.thing->kind, "switch");
  EXPECT_EQ(c.thing->name, "leaf1");
}

TEST(Factor, CausesWithASharedHostSayIt) {
  const Bundle bundle = Cluster();
  const Model model(bundle, {});
  std::vector<Cause> causes(2);
  causes[0].kind = RANK_DEAD;
  causes[0].ranks = Range(12, 4);
  causes[1].kind = MISMATCH_COUNT;
  causes[1].ranks = Range(16, 4);
  FoldByFactor(model, &causes);
  ASSERT_TRUE(causes[0].factor.has_value());
  EXPECT_EQ(causes[0].factor->kind(), "host");
  EXPECT_EQ(causes[0].factor->name(), "node3");
  EXPECT_EQ(causes[0].factor->members(), 4);
  EXPECT_FALSE(causes[1].factor.has_value());  // a mismatch is no broken thing
}

// Healthy ranks of the thing count as its members, and named ranks elsewhere not as its culprits.
TEST(Factor, CountsAreOfTheThing) {
  const Bundle bundle = Cluster();
  const Model model(bundle, {});
  std::vector<Cause> causes(1);
  causes[0].kind = RANK_DEAD;
  causes[0].ranks = Range(16, 13);                     // of rack1's sixteen, thirteen
  causes[0].ranks.insert(causes[0].ranks.begin(), 3);  // and one of another rack
  FoldByFactor(model, &causes);
  ASSERT_TRUE(causes[0].factor.has_value());
  EXPECT_EQ(causes[0].factor->kind(), "rack");
  EXPECT_EQ(causes[0].factor->culprits(), 13);
  EXPECT_EQ(causes[0].factor->members(), 16);
}

TEST(Factor, StuckOperationsThatAllCrossOneSwitchAreOneFinding) {
  const Bundle bundle = Cluster();
  const Model model(bundle, {});
  std::vector<Cause> causes;
  for (const std::vector<int32_t>& ranks : {std::vector<int32_t>{8, 16}, {0, 13}, {9, 28}, {14, 20}}) {
    Cause c;
    c.kind = COLLECTIVE_STUCK;
    c.ranks = ranks;
    causes.push_back(c);
  }
  FoldByFactor(model, &causes);
  ASSERT_EQ(causes.size(), 1u);
  EXPECT_EQ(causes[0].ranks, Range(8, 8));
  EXPECT_EQ(causes[0].factor->name(), "leaf1");
}

TEST(Factor, StuckPairsOfSiblingPipelinesAreOneSet) {
  Bundle bundle = Cluster();
  bundle.comms.resize(3);
  const Model model(bundle, {});
  Op send;
  send.kind = ring::CallKind::kSend;
  std::vector<Cause> causes;
  for (const auto& [comm, ranks] :
       {std::pair<uint32_t, std::vector<int32_t>>{1, {0, 9}}, {1, {9, 18}}, {2, {3, 27}}, {2, {27, 30}}}) {
    Cause c;
    c.kind = COLLECTIVE_STUCK;
    c.comm = comm;
    c.op = &send;
    c.ranks = ranks;
    causes.push_back(c);
  }
  FoldByFactor(model, &causes);
  // The pipelines are siblings that stand still at once: one set, and not sure.
  ASSERT_EQ(causes.size(), 1u);
  EXPECT_EQ(causes[0].ranks, (std::vector<int32_t>{0, 3, 9, 18, 27, 30}));
  EXPECT_LE(causes[0].grade, GRADE_OPEN);
}

// A batch of sends and receives ends as one: that every pair of it has a member on one host does not make it that
// host's fault where its neighbours' hosts are in every batch as well.
TEST(Factor, BatchesThatAThingIsInTellNoMoreThanTheirNeighbours) {
  Bundle bundle = Cluster();
  bundle.comms.resize(5);
  const Model model(bundle, {});
  Op receive;
  receive.kind = ring::CallKind::kRecv;
  std::vector<Cause> causes;
  for (int32_t i = 0; i < 4; ++i) {
    Cause c;
    c.kind = COLLECTIVE_STUCK;
    c.comm = static_cast<uint32_t>(1 + i);
    c.op = &receive;
    c.ranks = {i, 4 + i};
    causes.push_back(c);
    c.ranks = {4 + i, 8 + i};
    causes.push_back(c);
  }
  FoldByFactor(model, &causes);
  ASSERT_FALSE(causes.empty());
  for (const Cause& c : causes) EXPECT_FALSE(c.factor.has_value()) << c.factor->name();
}

}  // namespace
}  // namespace lockstep
