#include "analyzer/engine/facts/factor.h"

#include <gtest/gtest.h>

#include <numeric>

namespace lockstep {
namespace {

// Eight hosts with four GPUs each. A switch has two hosts, a rack has four.
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

TEST(Factor, TheSmallestThingThatContainsNearlyAllRanksIsNamed) {
  const Bundle bundle = Cluster();
  const Things things(bundle);
  EXPECT_EQ(Common(things, Range(4, 4)), "host node1");
  EXPECT_EQ(Common(things, {4, 5, 7}), "host node1");
  EXPECT_EQ(Common(things, Range(8, 8)), "switch leaf1");
  EXPECT_EQ(Common(things, Range(16, 16)), "rack rack1");
  EXPECT_EQ(Common(things, Range(2, 8, 4)), "rail 2");
}

// The rail is the n-th GPU of every host, no matter how a job provides the number.
TEST(Factor, RailsAreFoundByIndexByAddressOrByNumberOnTheHost) {
  Bundle bundle = Cluster();
  for (Rank& rank : bundle.ranks) rank.gpu_index = 0;  // each process sees only its own GPU
  EXPECT_EQ(Common(Things(bundle), Range(2, 8, 4)), "none");
  for (Rank& rank : bundle.ranks)
    rank.gpu_pci = "0000:" + std::string(1, static_cast<char>('1' + rank.rank % 4)) + "b:00.0";
  EXPECT_EQ(Common(Things(bundle), Range(2, 8, 4)), "rail 2");
  for (Rank& rank : bundle.ranks) rank.gpu_pci.clear(), rank.gpu_index = -1, rank.local_rank = rank.rank % 4;
  EXPECT_EQ(Common(Things(bundle), Range(3, 8, 4)), "rail 3");
  // With two hosts a rail cannot be distinguished from two ranks.
  std::erase_if(bundle.ranks, [](const Rank& rank) { return rank.rank >= 8; });
  EXPECT_EQ(Common(Things(bundle), {2, 6}), "none");
}

// Every stuck operation crosses from one switch to the other. A rank of the second switch left no data, but its rack is
// known.
TEST(Factor, TwoSwitchesThatExplainItEquallyAreNotNamed) {
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

TEST(Factor, ARailIsNamedIfOnlyItsRingsAreStuck) {
  const Bundle bundle = Cluster();
  const Things things(bundle);
  // The rings of every second host are stuck on rail 1 and healthy on rail 0. Rings inside hosts are healthy too.
  const std::vector<std::vector<int32_t>> bad{Range(1, 4, 8), Range(5, 4, 8), {1, 5}},
      good{Range(0, 4, 8), Range(4, 4, 8), Range(4, 4), Range(8, 4)};
  Crossing c = FindCrossing(bundle, things, bad, good);
  ASSERT_NE(c.thing, nullptr);
  EXPECT_STREQ(c.thing->kind, "rail");
  EXPECT_EQ(c.thing->name, "1");
  EXPECT_TRUE(c.certain);
  EXPECT_EQ(c.ranks, Range(1, 8, 4));
  // If one ring of that rail is healthy, the rail is not the cause.
  std::vector<std::vector<int32_t>> well = good;
  well.push_back({9, 13, 25});
  c = FindCrossing(bundle, things, bad, well);
  EXPECT_EQ(c.thing, nullptr);
  // If two rails are stuck, neither is named.
  c = FindCrossing(bundle, things, {Range(1, 4, 8), Range(6, 4, 8)}, good);
  EXPECT_TRUE(c.thing == nullptr || std::string(c.thing->kind) != "rail");
}

TEST(Factor, NothingIsNamedInDoubt) {
  const Bundle bundle = Cluster();
  const Things things(bundle);
  EXPECT_EQ(Common(things, {4}), "none");
  EXPECT_EQ(Common(things, {4, 5}), "none");           // half of a host
  EXPECT_EQ(Common(things, {3, 4, 5, 6, 7}), "none");  // one of five ranks is on another host
  EXPECT_EQ(Common(things, Range(0, 32)), "none");     // all ranks
  EXPECT_EQ(Common(things, {0, 9, 18, 27}), "none");
}

TEST(Factor, HostsWithoutNamesAreNotCompared) {
  Bundle bundle = Cluster();
  for (Rank& rank : bundle.ranks) rank.host.clear(), rank.gpu_index = -1;
  const Things things(bundle);
  EXPECT_TRUE(things.things.empty());
  EXPECT_EQ(Common(things, {4, 5, 6, 7}), "none");
}

TEST(Factor, ASwitchIsNamedIfItsHostsShareNothingElse) {
  const Bundle bundle = Cluster();
  const Things things(bundle);
  // Hosts 2 and 3 are under leaf1.
  const Crossing c =
      FindCrossing(bundle, things, {{8, 16}, {13, 0}, {9, 28}, {14, 20}}, {{0, 16}, {1, 29}, {17, 21}, {2, 6}});
  ASSERT_NE(c.thing, nullptr);
  EXPECT_EQ(c.thing->name, "leaf1");
}

// Operations that cross two switches are stuck at both. At one switch, one rank fewer left data, which does not make
// that switch a likelier cause.
TEST(Factor, MissingDataDoesNotDecideBetweenTwoSwitches) {
  Bundle bundle = Cluster();
  bundle.ranks[16].host.clear();
  const Things things(bundle);
  const Crossing c = FindCrossing(bundle, things, {{8, 17}, {13, 20}, {9, 22}, {14, 18}}, {});
  EXPECT_EQ(c.thing, nullptr);
}

TEST(Factor, ARackWithItsOwnSwitchIsReportedAsTheSwitch) {
  Bundle bundle = Cluster();
  for (HostPlace& place : bundle.places) place.rack = "r" + place.leaf_switch;
  const Things things(bundle);
  const Crossing c = FindCrossing(bundle, things, {{8, 16}, {13, 0}, {9, 28}, {14, 20}}, {});
  ASSERT_NE(c.thing, nullptr);
  EXPECT_STREQ(c.thing->kind, "switch");
  EXPECT_EQ(c.thing->name, "leaf1");
}

TEST(Factor, CausesOnOneHostNameTheHost) {
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
  EXPECT_FALSE(causes[1].factor.has_value());  // a mismatch is not a hardware fault
}

// Healthy ranks of the rack count as its members. Named ranks of other racks do not count as its culprits.
TEST(Factor, CountsIncludeOnlyRanksOfTheNamedRack) {
  const Bundle bundle = Cluster();
  const Model model(bundle, {});
  std::vector<Cause> causes(1);
  causes[0].kind = RANK_DEAD;
  causes[0].ranks = Range(16, 13);                     // thirteen of rack1's sixteen ranks
  causes[0].ranks.insert(causes[0].ranks.begin(), 3);  // and one rank of another rack
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

TEST(Factor, StuckPairsOfParallelPipelinesAreOneSet) {
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
  // The pipelines are parallel and stuck at the same time, so they are one set, with low confidence.
  ASSERT_EQ(causes.size(), 1u);
  EXPECT_EQ(causes[0].ranks, (std::vector<int32_t>{0, 3, 9, 18, 27, 30}));
  EXPECT_LE(causes[0].grade, GRADE_OPEN);
}

// A batch of sends and receives ends as a whole. A host in every pair is not at fault if the neighbors' hosts are in
// every batch, too.
TEST(Factor, AHostInEveryBatchIsNotNamedIfItsNeighborsAreToo) {
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
