#include "collector/detect/root_finding.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr int64_t kIssued = 5;
constexpr int64_t kProgressAge = 9, kActivityAge = 7;
constexpr int64_t kSecond = 1'000'000'000;

class RootFindingTest : public ::testing::Test {
 protected:
  // Rank 0 is the root, and has no GPU progress markers. Rank 1 has them.
  RootFindingTest() {
    bundle_.comms.resize(1);
    bundle_.ranks.resize(2);
    bundle_.ranks_expected = 2;
    for (int32_t number = 0; number < 2; ++number) {
      Rank& rank = bundle_.ranks[static_cast<size_t>(number)];
      rank.rank = number;
      rank.process.life = Life::kRunning;
      rank.threads.resize(1);
      rank.memberships.resize(1);
      rank.memberships[0].comm = 0;
      rank.memberships[0].state = ring::CommState::kReady;
      rank.memberships[0].issued = kIssued;
    }
    bundle_.ranks[1].memberships[0].completed = kIssued;
  }

  int64_t BlockedFor() const {
    return FindRoot(Verdict(), bundle_, [](int32_t) { return RankMotion{kProgressAge, kActivityAge}; }).blocked_ns;
  }
  RootView Root(FindingKind kind) const {
    Verdict verdict;
    Finding* finding = verdict.add_findings();
    finding->set_kind(kind);
    finding->add_culprit_ranks(0);
    return FindRoot(verdict, bundle_, [](int32_t) { return RankMotion(); }).roots.at(0);
  }
  ring::ThreadSnapshot& thread() { return bundle_.ranks[0].threads[0]; }

  Bundle bundle_;
};

TEST_F(RootFindingTest, AWaitIsNotForOwnWorkWhileAMemberHasNotCompleted) {
  thread().wait = ring::CallKind::kStreamSynchronize;
  EXPECT_TRUE(Root(RANK_NOT_ARRIVED).waits_for_compute);
  bundle_.ranks[1].memberships[0].completed = kIssued - 1;
  EXPECT_FALSE(Root(RANK_NOT_ARRIVED).waits_for_compute);
  EXPECT_TRUE(Root(RANK_NOT_ARRIVED).in_recorded_call);
}

TEST_F(RootFindingTest, AWaitForAnotherRanksDeviceIsRecorded) {
  bundle_.ranks[1].memberships[0].completed = kIssued - 1;
  EXPECT_FALSE(Root(HOST_STALL).in_recorded_call);
  thread().waits_elsewhere = true;
  const RootView root = Root(HOST_STALL);
  EXPECT_TRUE(root.in_recorded_call);
  EXPECT_FALSE(root.waits_for_compute);
}

// The other rank's device may be computing for its own rank.
TEST_F(RootFindingTest, AWaitForAnotherRanksDeviceMayBeForItsOwnWork) {
  thread().waits_elsewhere = true;
  EXPECT_TRUE(Root(HOST_STALL).waits_for_compute);
}

TEST_F(RootFindingTest, WithoutMarkersAWaitMayBeForTheLastOperationUntilAnotherWaitEnded) {
  bundle_.ranks[0].memberships[0].issued_ns = 100 * kSecond;
  thread().wait = ring::CallKind::kStreamSynchronize;
  thread().last_call_ns = 100 * kSecond + 1000;
  EXPECT_TRUE(Root(RANK_NOT_ARRIVED).behind_nccl);
  EXPECT_FALSE(Root(RANK_NOT_ARRIVED).waits_for_compute);
  thread().last_call_ns = 105 * kSecond;
  EXPECT_FALSE(Root(RANK_NOT_ARRIVED).behind_nccl);
  EXPECT_TRUE(Root(RANK_NOT_ARRIVED).waits_for_compute);
}

TEST_F(RootFindingTest, TheJobIsBlockedIfEveryRankWaitsBehindItsOperations) {
  for (Rank& rank : bundle_.ranks) {
    rank.memberships[0].completed = kUnknown;
    rank.memberships[0].issued_ns = 100 * kSecond;
    rank.threads[0].wait = ring::CallKind::kStreamSynchronize;
  }
  EXPECT_EQ(BlockedFor(), kActivityAge);
  thread().wait = ring::CallKind::kNone;
  bundle_.ranks[0].process.stack = {"cudaLaunchKernel+0x51 (libcudart.so.13)"};
  EXPECT_EQ(BlockedFor(), kActivityAge) << "the launch queue is full";
  bundle_.ranks[0].process.stack.clear();
  EXPECT_EQ(BlockedFor(), -1) << "outside";
  thread().call = ring::CallKind::kCommInitRank;
  EXPECT_EQ(BlockedFor(), -1) << "the rank creates a communicator";
}

}  // namespace
}  // namespace lockstep
