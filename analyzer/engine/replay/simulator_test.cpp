#include "analyzer/engine/replay/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::replay {
namespace {

bool SameCount(const Op& a, const Op& b) { return a.count == b.count; }

// A job with ranks 0 to ranks - 1, which are all members of each communicator.
Job JobOf(int ranks, int comms) {
  Job job;
  job.programs.resize(static_cast<size_t>(ranks));
  job.comms.resize(static_cast<size_t>(comms));
  for (Job::Comm& comm : job.comms) {
    for (int r = 0; r < ranks; ++r) comm.members.push_back(r);
  }
  return job;
}

Call On(uint32_t comm, uint32_t queue, const Op* op = nullptr) { return {.comm = comm, .queue = queue, .op = op}; }

Call Send(int32_t peer, uint32_t unit = 0) { return {.peer = peer, .send = true, .queue = 0, .unit = unit}; }

Call Recv(int32_t peer, uint32_t unit = 0) { return {.peer = peer, .queue = 0, .unit = unit}; }

Outcome Played(Job job) {
  Arrange(&job);
  return Play(Variant(job), SameCount);
}

TEST(SimulatorTest, ACollectiveCompletesWhenEveryMemberHasArrived) {
  Job job = JobOf(3, 1);
  for (Program& program : job.programs) program.calls = {On(0, 0)};
  EXPECT_TRUE(Played(job).completes());
  job.programs[1].calls.clear();
  job.programs[1].host = Host::kHalted;
  const Outcome halted = Played(job);
  EXPECT_EQ(halted.open, 1u);
  EXPECT_TRUE(halted.owes[1]);
  EXPECT_FALSE(halted.owes[0]);
  job.programs[1].host = Host::kFree;
  EXPECT_TRUE(Played(job).completes());
}

TEST(SimulatorTest, AWaitingRankContinuesOnlyWhenItsOwnCallsCompleted) {
  // Rank 0 waits in communicator 0 and rank 1 in communicator 1, so each waits for the other.
  Job job = JobOf(2, 2);
  job.programs[0].calls = {On(0, 0)};
  job.programs[1].calls = {On(1, 0)};
  EXPECT_EQ(Played(job).open, 2u);
  job.programs[1].host = Host::kFree;
  EXPECT_TRUE(Played(job).completes());
}

TEST(SimulatorTest, AQueueKeepsItsOrder) {
  Job job = JobOf(2, 2);
  job.programs[0].calls = {On(0, 0), On(1, 0)};
  job.programs[1].calls = {On(1, 0), On(0, 0)};
  EXPECT_EQ(Played(job).open, 2u);
  job.programs[1].calls = {On(1, 1), On(0, 0)};
  EXPECT_TRUE(Played(job).completes()) << "another stream";
}

TEST(SimulatorTest, ArgumentsMustAgreeIfBothAreKnown) {
  Op small, large;
  small.count = 1, large.count = 2;
  Job job = JobOf(3, 1);
  job.programs[0].calls = {On(0, 0, &small)};
  job.programs[1].calls = {On(0, 0, &large)};
  job.programs[2].calls = {On(0, 0, &small)};
  const Outcome outcome = Played(job);
  EXPECT_EQ(outcome.open, 1u);
  EXPECT_FALSE(outcome.meetings[0].agree);
  job.programs[1].calls[0].op = nullptr;
  EXPECT_TRUE(Played(job).completes());
}

TEST(SimulatorTest, MembersOfAnAllToAllTogetherSendWhatTheyReceive) {
  Op more, less;
  more.kind = less.kind = ring::CallKind::kAlltoAll;
  more.input_elements = less.output_elements = 7;
  more.output_elements = less.input_elements = 3;
  Job job = JobOf(2, 1);
  job.programs[0].calls = {On(0, 0, &more)};
  job.programs[1].calls = {On(0, 0, &less)};
  EXPECT_TRUE(Played(job).completes());
  job.programs[1].calls[0].op = &more;
  EXPECT_EQ(Played(job).open, 1u);
  job.programs[1].calls[0].op = nullptr;
  EXPECT_TRUE(Played(job).completes());
}

TEST(SimulatorTest, SendsMatchReceivesInOrder) {
  Op first, second;
  first.count = 1, second.count = 2;
  Job job = JobOf(2, 1);
  job.programs[0].calls = {Send(1), Send(1)};
  job.programs[1].calls = {Recv(0), Recv(0)};
  job.programs[0].calls[0].op = job.programs[1].calls[0].op = &first;
  job.programs[0].calls[1].op = job.programs[1].calls[1].op = &second;
  EXPECT_TRUE(Played(job).completes());
  std::swap(job.programs[1].calls[0], job.programs[1].calls[1]);
  EXPECT_EQ(Played(job).open, 2u) << "the second is behind the first";
}

TEST(SimulatorTest, SendsToEachOtherHangUnlessInOneGroup) {
  Job job = JobOf(2, 1);
  job.programs[0].calls = {Send(1), Recv(1)};
  job.programs[1].calls = {Send(0), Recv(0)};
  EXPECT_EQ(Played(job).open, 2u);
  job.programs[0].calls = {Send(1, 7), Recv(1, 7)};
  EXPECT_TRUE(Played(job).completes());
}

TEST(SimulatorTest, AGroupEndsAsAWhole) {
  // Rank 0's group also waits for rank 2, so later work in its queue does not begin.
  Job job = JobOf(3, 2);
  job.programs[0].calls = {Send(1, 1), Send(2, 1), On(1, 0)};
  job.programs[1].calls = {Recv(0), On(1, 0)};
  job.programs[2].calls = {On(1, 0)};
  job.programs[2].host = Host::kHalted;
  EXPECT_EQ(Played(job).open, 2u);
}

// A GPU runs a group's transfers in any order, so an unmatched receive may hold up matched ones.
TEST(SimulatorTest, AStuckGroupMayHoldTheGroupsThatExchangeWithIt) {
  Job job = JobOf(4, 1);
  for (int r = 0; r < 3; ++r) {
    for (int peer = 0; peer < 3; ++peer) {
      if (peer == r) continue;
      for (const Call& call : {Send(peer, 1), Recv(peer, 1)}) job.programs[r].calls.push_back(call);
    }
  }
  const auto unexplained = [](const Job& of) {
    const Outcome outcome = Played(of);
    return std::count_if(outcome.meetings.begin(), outcome.meetings.end(),
                         [](const Meeting& m) { return m.complete && m.unfinished; });
  };
  for (Program& program : job.programs) {
    for (Call& call : program.calls) call.unfinished = true;
  }
  EXPECT_EQ(unexplained(job), 6) << "nothing keeps them from completing";
  job.programs[0].calls.push_back(Recv(3, 1));
  job.programs[3].host = Host::kHalted;
  EXPECT_EQ(unexplained(job), 0);
}

TEST(SimulatorTest, ThePeerOwesAnUnmatchedCall) {
  Job job = JobOf(2, 1);
  job.programs[0].calls = {Send(1)};
  job.programs[1].host = Host::kHalted;
  EXPECT_EQ(Played(job).open, 1u);
  job.programs[1].host = Host::kWaits;
  EXPECT_TRUE(Played(job).completes());
}

TEST(SimulatorTest, ABlockedCallHoldsUpLaterCalls) {
  Job job = JobOf(2, 2);
  for (Program& program : job.programs) program.calls = {On(0, 0), On(1, 0)};
  job.programs[0].calls[0].blocked = true;
  EXPECT_EQ(Played(job).open, 2u);
}

TEST(SimulatorTest, UnknownMembersDoNotHoldUpTheOthers) {
  Job job = JobOf(2, 1);
  job.comms[0].members.push_back(-1);
  for (Program& program : job.programs) program.calls = {On(0, 0)};
  EXPECT_TRUE(Played(job).completes());
}

TEST(SimulatorTest, OutOfRangePlacesAreHarmless) {
  Job job = JobOf(2, 1);
  job.programs[0].calls = {Send(INT32_MAX), Recv(-7), Send(0)};
  EXPECT_FALSE(Played(job).completes());
}

TEST(SimulatorTest, AJobWithTooManyPartsIsNotSimulated) {
  Job job = JobOf(2, 1);
  job.comms[0].members.assign(1 << 16, 0);
  job.programs[0].calls.assign(1 << 10, On(0, 0));
  const Outcome outcome = Played(job);
  EXPECT_TRUE(outcome.too_large);
  EXPECT_FALSE(outcome.completes());
}

}  // namespace
}  // namespace lockstep::replay
