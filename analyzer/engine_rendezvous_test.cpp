// Hosts that wait for another process by other means than NCCL: of those that stand still they are the victims.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analyzer/engine.h"
#include "analyzer/engine_test_job.h"

namespace lockstep {
namespace {

using ring::CallKind;
using testing::HostFault;
using testing::Job;

// Neighbours in a pipeline of 8 ranks (tensor 2, pipeline 2, data 2).
constexpr int kCulprit = 1, kWaiter = 5;

// Both stop before the nth call of their program; nobody waits for one of them alone.
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
    // Each was seen to make its communicators.
    if (rank.threads.empty()) rank.threads.emplace_back();
    rank.threads[0].calls += 4;
    rank.host_waits = true;
  }
  return b;
}

void InStore(Rank* rank) {
  rank->process.stack = {"poll", "c10d::TCPStore::doWait", "c10d::PrefixStore::get", "c10d::ProcessGroupNCCL::broadcastUniqueNCCLID"};
}

std::vector<int32_t> Culprits(const Finding& f) { return {f.culprit_ranks().begin(), f.culprit_ranks().end()}; }

TEST(Rendezvous, WhoWaitsInAStoreIsTheVictimOfWhoDoesNot) {
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
      const auto told = std::find_if(f.chain().begin(), f.chain().end(), [](const ChainLink& link) { return link.operation() == "a rendezvous outside of NCCL"; });
      ASSERT_NE(told, f.chain().end()) << v.DebugString();
      EXPECT_EQ(std::vector<int32_t>(told->ranks().begin(), told->ranks().end()), std::vector<int32_t>{kWaiter});
      EXPECT_EQ(std::vector<int32_t>(told->waits_for().begin(), told->waits_for().end()), std::vector<int32_t>{kCulprit});
      // What others wait in for the culprit is told as before.
      EXPECT_FALSE(f.operation().empty());
    }
  }
}

// What the key would come from may be the process that left no data.
TEST(Rendezvous, AProcessWithoutDataMayBeWaitedForThere) {
  Bundle b = TwoStand();
  InStore(&b.ranks[kWaiter]);
  b.ranks.erase(b.ranks.begin() + kCulprit);
  const Verdict v = Analyze(b);
  ASSERT_GE(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(v.findings(0).kind(), RANK_NO_DATA) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{kCulprit}) << v.DebugString();
}

TEST(Rendezvous, WhereAllWaitLikeThatTheyAreNamedWithDoubt) {
  Bundle b = TwoStand();
  InStore(&b.ranks[kCulprit]);
  InStore(&b.ranks[kWaiter]);
  const Verdict v = Analyze(b);
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  const Finding& f = v.findings(0);
  EXPECT_EQ(Culprits(f), (std::vector<int32_t>{kCulprit, kWaiter}));
  EXPECT_EQ(f.activity(), "rendezvous");
  EXPECT_LE(f.confidence(), 0.8);
  EXPECT_FALSE(f.tells_apart().empty());
  EXPECT_GE(f.alternatives_size(), 1);
}

// Without stacks, and before anything was issued, one of them may wait for the other.
TEST(Rendezvous, TogetherAtTheStartIsNotSure) {
  const Verdict start = Analyze(TwoStand(0));
  ASSERT_EQ(start.findings_size(), 1) << start.DebugString();
  EXPECT_EQ(Culprits(start.findings(0)), (std::vector<int32_t>{kCulprit, kWaiter}));
  EXPECT_LE(start.findings(0).confidence(), 0.85);
  EXPECT_FALSE(start.findings(0).tells_apart().empty());
  const Verdict later = Analyze(TwoStand(9));
  ASSERT_EQ(later.findings_size(), 1) << later.DebugString();
  EXPECT_EQ(Culprits(later.findings(0)), (std::vector<int32_t>{kCulprit, kWaiter}));
  EXPECT_GE(later.findings(0).confidence(), 0.9);
}

}  // namespace
}  // namespace lockstep
