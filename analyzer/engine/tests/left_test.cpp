// Tests ranks that left their program early, communicators that all ranks gave up, dumps whose end is lost, and ranks
// whose recording was stopped.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/testing/findings.h"
#include "analyzer/testing/job.h"

namespace lockstep {
namespace {

using lockstep::testing::Culprits;

using ring::CallKind;
using testing::Job;

// One rank's data runs out two steps early. It waits in the last operation on the world, which the others also reach.
TEST(Left, ARankThatEndsEarlyIsNamed) {
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

// Flight Recorder dumps of 4 ranks in two groups of all ranks. The AllReduces are as given, and all completed.
class FourRanks {
 public:
  FourRanks() {
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

struct Group {
  std::string name;
  std::vector<int32_t> members;
};

// Dumps with only unfinished calls. Each rank has issued one call more than it completed in the groups of `in`, in this
// order.
Bundle Unfinished(const std::vector<Group>& groups, const std::vector<std::vector<uint32_t>>& in) {
  Bundle b;
  b.known_stalled = true;
  b.ranks_expected = static_cast<int32_t>(in.size());
  for (size_t c = 0; c < groups.size(); ++c) {
    Communicator comm;
    comm.id = std::to_string(c) + "/group";
    comm.name = groups[c].name;
    comm.members = groups[c].members;
    comm.size = static_cast<int32_t>(groups[c].members.size());
    b.comms.push_back(comm);
  }
  for (int32_t r = 0; r < b.ranks_expected; ++r) {
    Rank rank;
    rank.rank = r;
    rank.source = Source::kFlightRecorder;
    rank.only_active = true;
    std::vector<uint32_t> membership_of(groups.size(), kNoIndex);
    for (uint32_t c = 0; c < groups.size(); ++c) {
      const auto at = std::find(groups[c].members.begin(), groups[c].members.end(), r);
      if (at == groups[c].members.end()) continue;
      membership_of[c] = static_cast<uint32_t>(rank.memberships.size());
      Membership ms;
      ms.comm = c;
      ms.member_rank = static_cast<int32_t>(at - groups[c].members.begin());
      ms.issued = ms.completed = 20;
      rank.memberships.push_back(ms);
    }
    for (const uint32_t c : in[static_cast<size_t>(r)]) {
      Op op;
      op.membership = membership_of[c];
      op.kind = CallKind::kAllReduce;
      op.seq = ++rank.memberships[op.membership].issued;
      op.state = OpState::kIncomplete;
      op.record_id = 100 + static_cast<int64_t>(rank.ops.size());
      op.enter_ns = 1'000'000 * op.record_id;
      rank.ops.push_back(op);
    }
    b.ranks.push_back(rank);
  }
  return b;
}

// 8 ranks in tensor-parallel pairs, a group of the even ranks, and a world. Rank 4 has issued a tensor-parallel call
// that its partner, rank 5, has not issued, and all ranks are in a call on the world. With `ahead`, the other odd ranks
// have issued the tensor-parallel call too, and only rank 5 is in the call on the world.
Bundle OneCallMore(bool ahead) {
  std::vector<std::vector<uint32_t>> in(8);
  for (uint32_t r = 0; r < 8; ++r) {
    if (r == 4 || (ahead && r % 2 == 1 && r != 5)) in[r].push_back(2 + r / 2);
    if (r % 2 == 0) in[r].push_back(1);
    if (!ahead || r == 5) in[r].push_back(0);
  }
  return Unfinished({{"world", {0, 1, 2, 3, 4, 5, 6, 7}},
                     {"dp", {0, 2, 4, 6}},
                     {"tp", {0, 1}},
                     {"tp", {2, 3}},
                     {"tp", {4, 5}},
                     {"tp", {6, 7}}},
                    in);
}

// Each island of ranks waits for its leader. Rank 0 waits for rank 5 in the leaders' call, and rank 5 waits for
// everybody, so rank 5 explains why rank 0 is late.
TEST(Left, ARankThatWaitsOnlyForTheOneThatLeftIsNotNamed) {
  const std::vector<Group> groups = {{"world", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
                                     {"leaders", {0, 5}},
                                     {"island", {0, 1, 2, 3, 4}},
                                     {"island", {5, 6, 7, 8, 9}}};
  const Verdict v = Analyze(Unfinished(groups, {{1}, {2}, {2}, {2}, {2}, {0}, {3}, {3}, {3}, {3}}));
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5}) << v.DebugString();
  EXPECT_LE(v.findings(0).confidence(), 0.85) << "no earlier call shows that the call of all was never made there";
}

// As above, but rank 6 is in the call on the world. Its leader, rank 5, issued the leaders' call behind a call of the
// island.
TEST(Left, ARankThatWaitsThroughOthersForTheOneThatLeftIsNotNamed) {
  const std::vector<Group> groups = {{"world", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
                                     {"leaders", {0, 5}},
                                     {"island", {0, 1, 2, 3, 4}},
                                     {"island", {5, 6, 7, 8, 9}}};
  const Verdict v = Analyze(Unfinished(groups, {{1}, {2}, {2}, {2}, {2}, {3, 1}, {0}, {3}, {3}, {3}}));
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{6}) << v.DebugString();
}

// Rank 0 waits in a receive from rank 4, which never sends. If all others are idle as well, the job ended for them,
// and rank 0 made an extra call. If rank 2 also waits for rank 4, rank 4 is late.
TEST(Left, TheOnlyRankThatStillWaitsIsAhead) {
  for (const bool alone : {true, false}) {
    Bundle b = Unfinished({{"world", {0, 1, 2, 3, 4}}, {"pair", {2, 4}}}, {{}, {}, {}, {}, {}});
    const auto wait = [&](int rank, uint32_t membership, CallKind kind, int64_t seq) {
      Op op;
      op.membership = membership;
      op.kind = kind;
      op.root_or_peer = kind == CallKind::kRecv ? 4 : -1;
      op.seq = seq;
      op.state = OpState::kIncomplete;
      op.record_id = 100;
      op.enter_ns = 1'000'000;
      b.ranks[static_cast<size_t>(rank)].ops.push_back(op);
    };
    wait(0, 0, CallKind::kRecv, 1);
    if (!alone) wait(2, 1, CallKind::kAllReduce, b.ranks[2].memberships[1].issued = 21);
    const Verdict v = Analyze(b);
    ASSERT_GE(v.findings_size(), 1) << v.DebugString();
    EXPECT_EQ(v.findings(0).kind(), alone ? RANK_AHEAD : RANK_NOT_ARRIVED) << v.DebugString();
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{alone ? 0 : 4}) << v.DebugString();
  }
}

// Rank 3 skipped the trainers' call. It waits alone in the world's, with its next trainers' call behind. The other
// trainers are in the call that it skipped, and ranks 4 to 7 wait for rank 0, the only trainer in their group.
TEST(Left, TheManyInAnEarlierCallDidNotSkipTheCallOfOne) {
  const std::vector<Group> groups = {
      {"world", {0, 1, 2, 3, 4, 5, 6, 7}}, {"trainer", {0, 1, 2, 3}}, {"weights", {0, 4, 5, 6, 7}}};
  const Verdict v = Analyze(Unfinished(groups, {{1}, {1}, {1}, {0, 1}, {2, 0}, {2, 0}, {2, 0}, {2, 0}}));
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{3}) << v.DebugString();
}

TEST(Left, EitherOfTwoRanksOneCallApartMayBeWrong) {
  const Verdict v = Analyze(OneCallMore(false));
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(v.findings(0).reason(), REASON_LEFT_OUT_OR_ADDED) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), (std::vector<int32_t>{4, 5}));
  EXPECT_LE(v.findings(0).confidence(), 0.5);
  EXPECT_NE(v.findings(0).summary().find("rank 4 called"), std::string::npos) << v.findings(0).summary();
}

// No other rank has issued the call on `world`, so rank 5 left its program.
TEST(Left, ARankThatWaitsAloneLeftItsProgram) {
  const Verdict v = Analyze(OneCallMore(true));
  ASSERT_GE(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5}) << v.DebugString();
}

TEST(Left, AGroupThatAllRanksGaveUpBlamesNone) {
  FourRanks given_up;
  for (int r = 0; r < 4; ++r) {
    given_up.Add(r, 0, 1);
    if (r != 2) given_up.Add(r, 0, 2);
  }
  FourRanks gone = given_up;
  Verdict v = Analyze(gone.b);
  ASSERT_EQ(v.findings_size(), 1);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{2});
  for (int r = 0; r < 4; ++r) given_up.Add(r, 1, 1);
  v = Analyze(given_up.b);
  EXPECT_EQ(v.findings_size(), 0) << v.DebugString();
}

// One rank of a moving job was read a moment before the others.
TEST(Left, ARecentOperationProvesNoAbsence) {
  FourRanks dumps;
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

TEST(Left, ATruncatedDumpDoesNotBlameItsRank) {
  FourRanks cut;
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

void StopRecording(Rank* rank, size_t operations) {
  rank->recorder_state = ring::RecorderState::kStopped;
  rank->stop_reason = "switched off by the file /run/lockstep/off";
  rank->stopped_ns = 61'000'000'000;
  rank->real_minus_mono_ns = 0;
  rank->ops.resize(operations);
  for (Membership& ms : rank->memberships) {
    ms.issued = ms.launched = 0;
    for (const Op& op : rank->ops) {
      if (op.membership < rank->memberships.size() && rank->memberships[op.membership].comm == ms.comm &&
          ring::IsCollective(op.kind)) {
        ms.issued = ms.launched = op.seq;
      }
    }
    ms.completed = kUnknown;
  }
}

TEST(RoomForRings, SmallRingsAndRingsInMemoryAreReported) {
  Bundle b = Job(2, 2, 2, 6).Run();
  const auto about_rings = [&b] {
    const Verdict v = Analyze(b);
    std::vector<std::string> lines;
    for (const std::string& line : v.blind()) {
      if (line.find("/dev/shm") != line.npos) lines.push_back(line);
    }
    return lines;
  };
  for (Rank& rank : b.ranks) rank.ring_bytes = rank.wanted_ring_bytes = 4 << 20;
  EXPECT_EQ(about_rings(), std::vector<std::string>{});
  for (const size_t rank : {0, 1, 2, 5}) b.ranks[rank].ring_bytes = 256 << 10;
  for (const size_t rank : {6, 7}) b.ranks[rank].ring_place = ring::RingPlace::kMemory;
  EXPECT_EQ(about_rings(),
            (std::vector<std::string>{
                "older calls of ranks 0-2, 5 may be missing: the ring has only 256 KiB, because its file system is "
                "small. Enlarge /dev/shm",
                "calls of ranks 6, 7 are lost if the process is killed while no agent watches it. The file system was "
                "full, so each of these rings is in its process's memory. Enlarge /dev/shm"}));
}

TEST(StoppedRecording, IsABlindSpotAndNotACulprit) {
  // Rank 2 is stuck. Rank 6 works, but its recording was stopped.
  Job job(2, 2, 2, 6);
  job.ranks[2].host_fault = testing::HostFault::kStall;
  job.ranks[2].host_fault_at = job.Find(2, "tp", 4);
  Bundle b = job.Run();
  StopRecording(&b.ranks[6], 10);
  const Verdict v = Analyze(b);
  ASSERT_GE(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{2}) << v.DebugString();
  for (const Finding& f : v.findings()) {
    if (f.kind() == RANK_NO_DATA) continue;
    for (int32_t culprit : Culprits(f)) EXPECT_NE(culprit, 6) << v.DebugString();
  }
  EXPECT_EQ(v.ranks_read(), 7);
  EXPECT_EQ(v.ranks_expected(), 8);
  ASSERT_EQ(v.problems_size(), 1);
  EXPECT_EQ(v.problems(0).rank(), 6);
  EXPECT_EQ(v.problems(0).text(),
            "recording stopped at 1970-01-01 00:01:01 UTC (reason: switched off by the file /run/lockstep/off); what "
            "rank 6 did afterwards is unknown");
}

TEST(StoppedRecording, IsNamedIfOthersWaitForTheRank) {
  Job job(2, 2, 2, 6);
  job.ranks[5].host_fault = testing::HostFault::kStall;
  job.ranks[5].host_fault_at = job.Find(5, "tp", 3);
  Bundle b = job.Run();
  StopRecording(&b.ranks[5], 10);
  Verdict v = Analyze(b);
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(v.findings(0).kind(), RANK_NO_DATA);
  EXPECT_EQ(v.verdict(), VERDICT_INCOMPLETE_DATA);
  EXPECT_NE(v.findings(0).summary().find("recording stopped at 1970-01-01 00:01:01 UTC (reason"), std::string::npos)
      << v.findings(0).summary();
  // A process that was killed is dead, even if its recorder had stopped before.
  b.ranks[5].process.life = Life::kKilled;
  b.ranks[5].process.signal = 9;
  v = Analyze(b);
  ASSERT_GE(v.findings_size(), 1);
  EXPECT_EQ(v.findings(0).kind(), RANK_DEAD) << v.DebugString();
}

TEST(StoppedRecording, OfAllRanksLeavesNoVerdict) {
  Job job(2, 2, 2, 6);
  Bundle b = job.Run();
  for (Rank& rank : b.ranks) StopRecording(&rank, 10);
  b.known_stalled = true;
  const Verdict stalled = Analyze(b);
  for (const Finding& f : stalled.findings()) {
    EXPECT_EQ(f.kind(), RANK_NO_DATA);
    EXPECT_EQ(f.summary().rfind("recording stopped at", 0), 0u) << f.summary();
  }
  b.known_stalled = false;
  const Verdict v = Analyze(b);
  EXPECT_EQ(v.findings_size(), 0) << v.DebugString();
  EXPECT_EQ(v.verdict(), VERDICT_INCOMPLETE_DATA);
  EXPECT_EQ(v.ranks_read(), 0);
  EXPECT_EQ(v.ranks_expected(), 8);
  EXPECT_EQ(v.problems_size(), 8);
}

}  // namespace
}  // namespace lockstep
