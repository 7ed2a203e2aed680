#include "collector/common/namesakes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace lockstep {
namespace {

using Move = Namesakes::Move;

class NamesakesTest : public ::testing::Test {
 protected:
  int Say(const std::string& sender, const Ranks& alive, std::vector<uint64_t> comms, const Ranks& ended = {}) {
    return sorted_.Report(sender, alive, ended, comms, &moves_);
  }
  Namesakes sorted_;
  std::vector<Move> moves_;
};

TEST_F(NamesakesTest, PartsThatShareNothingAreOneJob) {
  EXPECT_EQ(Say("a", {0, 1}, {1}), 0);
  EXPECT_EQ(Say("b", {2, 3}, {2}), 0);
  EXPECT_EQ(Say("c", {4, 5}, {}), 0);
  EXPECT_EQ(Say("c", {4, 5, 6}, {2}), 0);
  EXPECT_TRUE(moves_.empty());
}

TEST_F(NamesakesTest, ARankThatRunsTwiceIsInTwoJobs) {
  EXPECT_EQ(Say("a", Ranks::Between(0, 7), {1, 11}), 0);
  EXPECT_EQ(Say("b", Ranks::Between(0, 7), {2, 22}), 1);
  // Each sender joins the senders that share its communicators, in any order of arrival.
  EXPECT_EQ(Say("d", Ranks::Between(8, 15), {22, 23}), 1);
  EXPECT_EQ(Say("c", Ranks::Between(8, 15), {11}), 0);
  EXPECT_EQ(Say("e", Ranks::Between(0, 3), {3}), 2);
  EXPECT_TRUE(moves_.empty());
  EXPECT_EQ(sorted_.Of("d"), 1);
  EXPECT_EQ(sorted_.Of("nobody"), Namesakes::kUndecided);
}

TEST_F(NamesakesTest, SendersThatShareACommunicatorAreOneJobEvenIfARankIsClaimedTwice) {
  EXPECT_EQ(Say("a", {0, 1}, {1}), 0);
  EXPECT_EQ(Say("copy", {0, 1}, {1}), 0);
  EXPECT_EQ(Say("b", {0, 1}, {2}), 1);
}

TEST_F(NamesakesTest, ASenderMovesWhenItTurnsOutToBelongToAnotherJob) {
  // Ranks 0-3 of one job and 4-7 of the other: they may be one job until the rest arrives.
  EXPECT_EQ(Say("a0", Ranks::Between(0, 3), {1}), 0);
  EXPECT_EQ(Say("b1", Ranks::Between(4, 7), {2}), 0);
  EXPECT_EQ(Say("a1", Ranks::Between(4, 7), {1}), 0);
  ASSERT_EQ(moves_.size(), 1u);
  EXPECT_EQ(moves_[0].sender, "b1");
  EXPECT_EQ(moves_[0].from, 0);
  EXPECT_EQ(moves_[0].to, 1);
  EXPECT_EQ(Say("b0", Ranks::Between(0, 3), {2}), 1);
  EXPECT_EQ(sorted_.Of("a0"), 0);
}

TEST_F(NamesakesTest, JobsThatTurnOutToBeOneAreMerged) {
  EXPECT_EQ(Say("a", {0, 1}, {1}), 0);
  EXPECT_EQ(Say("old way to a", {0, 1}, {9}), 1);
  EXPECT_EQ(Say("old way to a", {0, 1}, {1}), 0);
  EXPECT_EQ(moves_.size(), 1u);
  EXPECT_EQ(Say("b", {2}, {}), 0);
}

TEST_F(NamesakesTest, ASenderWithoutCommunicatorsFinallyCountsAsAnotherJob) {
  EXPECT_EQ(Say("a", {0, 1}, {1}), 0);
  EXPECT_EQ(Say("b", {0, 1}, {}), Namesakes::kUndecided);
  EXPECT_EQ(Say("b", {0, 1}, {1}), 0);  // the same ranks through another sender
  EXPECT_EQ(Say("c", {0, 1}, {}), Namesakes::kUndecided);
  EXPECT_EQ(Say("c", {0, 1}, {}), Namesakes::kUndecided);
  EXPECT_EQ(Say("c", {0, 1}, {}), Namesakes::kUndecided);
  EXPECT_EQ(Say("c", {0, 1}, {}), 1);
  EXPECT_TRUE(moves_.empty());
}

TEST_F(NamesakesTest, AJobThatRestartsAfterItsEndIsAnotherJob) {
  EXPECT_EQ(Say("a", Ranks::Between(0, 3), {1}), 0);
  EXPECT_EQ(Say("b", Ranks::Between(4, 7), {1}), 0);
  Say("a", {}, {}, Ranks::Between(0, 3));
  Say("b", {}, {}, Ranks::Between(4, 7));
  EXPECT_EQ(Say("b again", Ranks::Between(4, 7), {2}), 1);
  EXPECT_EQ(Say("a again", Ranks::Between(0, 3), {}), 1);
  EXPECT_EQ(sorted_.Of("a"), 0);
  sorted_.Leave("a");
  sorted_.Leave("b");
  sorted_.Leave("b again");
  sorted_.Leave("a again");
  EXPECT_TRUE(sorted_.empty());
  EXPECT_EQ(Say("c", {0}, {3}), 2);  // numbers are not reused
}

TEST_F(NamesakesTest, PartsThatRestartWhileOthersRunStayInTheirJob) {
  EXPECT_EQ(Say("a", {0, 1}, {1}), 0);
  EXPECT_EQ(Say("b", {2, 3}, {2}), 0);
  Say("b", {}, {}, {2, 3});
  EXPECT_EQ(Say("b again", {2, 3}, {3}), 0);
  EXPECT_TRUE(moves_.empty());
}

TEST_F(NamesakesTest, RanksOfASilentSenderMayRunElsewhere) {
  EXPECT_EQ(Say("a", {0, 1}, {1}), 0);
  EXPECT_EQ(Say("b", {2, 3}, {1}), 0);
  sorted_.Silent("b");
  EXPECT_EQ(Say("c", {2, 3}, {5}), 0);
  EXPECT_EQ(Say("b", {2, 3}, {1}), 0);
  EXPECT_EQ(sorted_.Of("c"), 1);
}

TEST_F(NamesakesTest, ThousandsOfSendersAreAssignedAsTheyCome) {
  constexpr int kHosts = 2000;
  std::vector<uint64_t> comms;
  for (int job = 0; job < 2; ++job) {
    for (int host = 0; host < kHosts; ++host) {
      comms = {static_cast<uint64_t>(1 + job), static_cast<uint64_t>(1000 + job * kHosts + host)};
      ASSERT_EQ(Say(absl::StrCat(job, "/", host), Ranks::Between(8 * host, 8 * host + 7), comms), job);
    }
  }
  EXPECT_TRUE(moves_.empty());
}

}  // namespace
}  // namespace lockstep
