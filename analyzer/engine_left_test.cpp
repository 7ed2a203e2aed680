// Ranks that left the program ahead of the others, communicators that all gave up, and dumps whose end is lost.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/engine.h"
#include "analyzer/engine_test_job.h"

namespace lockstep {
namespace {

using ring::CallKind;
using testing::Job;

std::vector<int32_t> Culprits(const Finding& f) { return {f.culprit_ranks().begin(), f.culprit_ranks().end()}; }

// One rank's data runs out two steps early; it waits in the last operation of all, which the others come to as well.
TEST(Left, EarlyAtTheEnd) {
  for (int early : {0, 3, 7}) {
    Job job(2, 2, 2, 6);
    auto& program = job.ranks[early].program;
    program.resize(job.Find(early, "tp", 4));
    program.push_back({0, CallKind::kBroadcast, 16, 7, ring::kNoReduction, 0, 99});
    program.push_back({});
    const Verdict v = Analyze(job.Run());
    ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
    EXPECT_EQ(v.findings(0).kind(), RANK_NOT_ARRIVED) << v.DebugString();
    EXPECT_EQ(v.findings(0).cause(), "code mismatch");
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{early}) << v.DebugString();
  }
}

// Flight Recorder dumps of 4 ranks in two groups of all; AllReduces as given, all of them complete.
class Dumps {
 public:
  Dumps() {
    for (const char* id : {"1/a", "2/b"}) {
      Communicator comm;
      comm.id = id;
      comm.name = std::string(id, 1);
      comm.size = 4;
      comm.members = {0, 1, 2, 3};
      b.comms.push_back(comm);
    }
    for (int r = 0; r < 4; ++r) {
      Rank rank;
      rank.rank = r;
      rank.source = Source::kFlightRecorder;
      for (uint32_t c = 0; c < 2; ++c) {
        Membership ms;
        ms.comm = c;
        ms.member_rank = r;
        rank.memberships.push_back(ms);
      }
      b.ranks.push_back(rank);
    }
    b.ranks_expected = 4;
  }

  void Add(int rank, uint32_t comm, int64_t seq, OpState state = OpState::kCompleted) {
    Rank& r = b.ranks[rank];
    Op op;
    op.membership = comm;
    op.kind = CallKind::kAllReduce;
    op.seq = seq;
    op.state = state;
    op.record_id = static_cast<int64_t>(r.ops.size());
    op.enter_ns = 1'000'000 * (op.record_id + 1);
    r.ops.push_back(op);
  }

  Bundle b;
};

TEST(Left, AGroupThatAllGaveUpIsNobodysAbsence) {
  Dumps given_up;
  for (int r = 0; r < 4; ++r) {
    given_up.Add(r, 0, 1);
    if (r != 2) given_up.Add(r, 0, 2);
  }
  Dumps gone = given_up;
  Verdict v = Analyze(gone.b);
  ASSERT_EQ(v.findings_size(), 1);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{2});
  for (int r = 0; r < 4; ++r) given_up.Add(r, 1, 1);
  v = Analyze(given_up.b);
  EXPECT_EQ(v.findings_size(), 0) << v.DebugString();
}

// A job that moves, one rank of which was read a moment before the others.
TEST(Left, WhatIsYoungProvesNoAbsence) {
  Dumps dumps;
  for (int r = 0; r < 4; ++r) {
    dumps.Add(r, 0, 1);
    if (r != 2) dumps.Add(r, 0, 2);
    dumps.b.ranks[r].captured_ns = dumps.b.ranks[r].ops.back().enter_ns + 1'000'000;
  }
  EXPECT_EQ(Analyze(dumps.b).findings_size(), 0);
  for (Rank& r : dumps.b.ranks) r.captured_ns += 60'000'000'000;
  const Verdict v = Analyze(dumps.b);
  ASSERT_EQ(v.findings_size(), 1);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{2});
}

TEST(Left, ACutDumpIsNotHeldAgainstItsRank) {
  Dumps cut;
  for (int r = 0; r < 4; ++r) {
    cut.Add(r, 0, 1);
    if (r != 2 && r != 3) cut.Add(r, 0, 2, OpState::kStarted);
  }
  cut.b.ranks[2].damaged = true;
  cut.b.known_stalled = true;
  Verdict v = Analyze(cut.b);
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{3});
  cut.Add(3, 0, 2, OpState::kStarted);
  v = Analyze(cut.b);
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(v.findings(0).kind(), RANK_NO_DATA);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{2});
  EXPECT_NE(v.findings(0).summary().find("lost"), std::string::npos) << v.findings(0).summary();
}

}  // namespace
}  // namespace lockstep
