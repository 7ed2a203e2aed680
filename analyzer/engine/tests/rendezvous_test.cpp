// Tests CPU threads that wait for another process outside NCCL. Among stuck ranks, these are the victims.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/testing/findings.h"
#include "analyzer/testing/job.h"

namespace lockstep {
namespace {

using lockstep::testing::Culprits;

using ring::CallKind;
using testing::HostFault;
using testing::Job;

// Neighbors in a pipeline of 8 ranks (tensor 2, pipeline 2, data 2).
constexpr int kCulprit = 1, kWaiter = 5;

// Both ranks stop before call `at` of their program. No rank waits for just one of them.
Bundle TwoStand(size_t at = 0, HostFault how = HostFault::kStall) {
  Job job(2, 2, 2, 4);
  for (int r : {kCulprit, kWaiter}) {
    job.ranks[r].host_fault = HostFault::kStall;
    job.ranks[r].host_fault_at = at;
  }
  job.ranks[kCulprit].host_fault = how;
  Bundle b = job.Run();
  b.ranks_expected = static_cast<int32_t>(b.ranks.size());
  for (Rank& rank : b.ranks) {
    // Each rank created its communicators.
    if (rank.threads.empty()) rank.threads.emplace_back();
    rank.threads[0].calls += 4;
    rank.host_waits = true;
  }
  return b;
}

void InStore(Rank* rank) {
  rank->process.stack = {"poll", "c10d::TCPStore::doWait", "c10d::PrefixStore::get",
                         "c10d::ProcessGroupNCCL::broadcastUniqueNCCLID"};
}

TEST(Rendezvous, ARankThatWaitsInAStoreIsTheVictimOfOneThatDoesNot) {
  for (const HostFault how : {HostFault::kStall, HostFault::kStop, HostFault::kDie}) {
    for (const size_t at : {0u, 9u}) {
      Bundle b = TwoStand(at, how);
      InStore(&b.ranks[kWaiter]);
      const Verdict v = Analyze(b);
      ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
      const Finding& f = v.findings(0);
      EXPECT_EQ(Culprits(f), std::vector<int32_t>{kCulprit}) << v.DebugString();
      EXPECT_EQ(f.kind(), how == HostFault::kDie ? RANK_DEAD : HOST_STALL);
      EXPECT_GE(f.confidence(), 0.9);
      EXPECT_EQ(f.victim_count(), 7);
      const auto told = std::find_if(f.chain().begin(), f.chain().end(), [](const ChainLink& link) {
        return link.operation() == "a rendezvous outside NCCL";
      });
      ASSERT_NE(told, f.chain().end()) << v.DebugString();
      EXPECT_EQ(std::vector<int32_t>(told->ranks().begin(), told->ranks().end()), std::vector<int32_t>{kWaiter});
      EXPECT_EQ(std::vector<int32_t>(told->waits_for().begin(), told->waits_for().end()),
                std::vector<int32_t>{kCulprit});
      // The operation in which others wait for the culprit is still reported.
      EXPECT_FALSE(f.operation().empty());
    }
  }
}

// The process without data may be the one that must set the key.
TEST(Rendezvous, ARankInAStoreMayWaitForAProcessWithoutData) {
  Bundle b = TwoStand();
  InStore(&b.ranks[kWaiter]);
  b.ranks.erase(b.ranks.begin() + kCulprit);
  const Verdict v = Analyze(b);
  ASSERT_GE(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(v.findings(0).kind(), RANK_NO_DATA) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{kCulprit}) << v.DebugString();
}

TEST(Rendezvous, IfAllStuckRanksWaitInAStoreTheyAreNamedWithLowConfidence) {
  Bundle b = TwoStand();
  InStore(&b.ranks[kCulprit]);
  InStore(&b.ranks[kWaiter]);
  const Verdict v = Analyze(b);
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  const Finding& f = v.findings(0);
  EXPECT_EQ(Culprits(f), (std::vector<int32_t>{kCulprit, kWaiter}));
  EXPECT_EQ(f.activity(), "rendezvous");
  EXPECT_LE(f.grade(), GRADE_GOOD);
  EXPECT_FALSE(f.tells_apart().empty());
  EXPECT_GE(f.alternatives_size(), 1);
}

// A job whose ranks have made no call yet: all except `standing` request a unique id from the store.
Bundle AllInStore(const std::vector<int>& standing) {
  Job job(2, 2, 2, 4);
  for (auto& rank : job.ranks) rank.host_fault = HostFault::kStall, rank.host_fault_at = 0;
  Bundle b = job.Run();
  b.ranks_expected = static_cast<int32_t>(b.ranks.size());
  for (Rank& rank : b.ranks) {
    if (rank.threads.empty()) rank.threads.emplace_back();
    rank.threads[0].calls += 1;
    rank.threads[0].last_call_ns = rank.captured_ns - 40'000'000'000;
    rank.host_waits = true;
    if (std::find(standing.begin(), standing.end(), rank.rank) == standing.end()) InStore(&rank);
  }
  return b;
}

TEST(Rendezvous, IfNoRankWaitsInNcclTheRankOutsideTheStoreIsNamed) {
  for (const bool known : {true, false}) {
    Bundle b = AllInStore({3});
    b.known_stalled = known;
    const Verdict v = Analyze(b);
    ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
    EXPECT_EQ(v.findings(0).kind(), HOST_STALL);
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{3});
    EXPECT_LT(v.findings(0).confidence(), 0.9);
    EXPECT_EQ(v.findings(0).victim_count(), 7);
    EXPECT_EQ(v.verdict(), known ? VERDICT_HUNG : VERDICT_LATE);
  }
  // A barrier that only lasts a moment is not a hang.
  Bundle b = AllInStore({3});
  b.known_stalled = false;
  for (Rank& rank : b.ranks) rank.threads[0].last_call_ns = rank.captured_ns - 1'000'000'000;
  EXPECT_EQ(Analyze(b).verdict(), VERDICT_HEALTHY);
}

TEST(Rendezvous, IfAllOthersWaitInTheStoreTheRankWithoutDataIsNamed) {
  Bundle b = AllInStore({});
  b.ranks.erase(b.ranks.begin() + 6);
  const Verdict v = Analyze(b);
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(v.findings(0).kind(), RANK_NO_DATA);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{6});
  EXPECT_LE(v.findings(0).confidence(), 0.5);
}

// Several ranks that do not wait in the store may be working.
TEST(Rendezvous, SeveralRanksOutsideTheStoreAreNotNamed) {
  for (const std::vector<int>& standing :
       {std::vector<int>{0, 1, 2, 3}, std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}, std::vector<int>{}}) {
    EXPECT_EQ(Analyze(AllInStore(standing)).findings_size(), 0);
  }
}

}  // namespace
}  // namespace lockstep
