// Tests two independent faults, where the first stops every rank that would otherwise wait for the second.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/testing/findings.h"
#include "analyzer/testing/job.h"

namespace lockstep {
namespace {

using lockstep::testing::Culprits;

using testing::HostFault;
using testing::Job;

// Rank 0 never reaches the first call of a step. The GPUs of all others wait in that call, while their CPU threads
// continue to later calls.
Job FirstFault() {
  Job job(8, 1, 1, 4);
  job.ranks[0].host_fault = HostFault::kStall;
  job.ranks[0].host_fault_at = job.Find(0, "tp", 2, 0);
  return job;
}

TEST(Beside, AStallFurtherOnIsReportedAfterTheOneThatAllWaitFor) {
  Job job = FirstFault();
  job.ranks[5].host_fault = HostFault::kStall;
  job.ranks[5].host_fault_at = job.Find(5, "tp", 2, 1);
  const Verdict v = Analyze(job.Run());
  ASSERT_EQ(v.findings_size(), 2) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{0});
  EXPECT_EQ(Culprits(v.findings(1)), std::vector<int32_t>{5});
  for (const Finding& f : v.findings()) EXPECT_EQ(f.kind(), HOST_STALL);
  EXPECT_LT(v.findings(1).confidence(), v.findings(0).confidence());
}

TEST(Beside, ASkippedCallIsReportedEvenIfNoRankReachedIt) {
  Job job = FirstFault();
  auto& program = job.ranks[5].program;
  program.erase(program.begin() + static_cast<std::ptrdiff_t>(job.Find(5, "tp", 2, 1)));
  const Verdict v = Analyze(job.Run());
  ASSERT_EQ(v.findings_size(), 2) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{0});
  EXPECT_EQ(Culprits(v.findings(1)), std::vector<int32_t>{5}) << v.DebugString();
}

TEST(Beside, VictimsAreNotASecondFault) {
  const Verdict v = Analyze(FirstFault().Run());
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  // Two ranks that all others wait for at the same time are one finding.
  Job job = FirstFault();
  job.ranks[5].host_fault = HostFault::kStall;
  job.ranks[5].host_fault_at = job.Find(5, "tp", 2, 0);
  const Verdict both = Analyze(job.Run());
  ASSERT_EQ(both.findings_size(), 1) << both.DebugString();
  EXPECT_EQ(Culprits(both.findings(0)), (std::vector<int32_t>{0, 5}));
}

// Flight Recorder dumps of `groups` groups of `size` ranks, and a group of all ranks. Rank r is in group r / size.
class GroupsAndWorld {
 public:
  GroupsAndWorld(int groups, int size) {
    for (int g = 0; g <= groups; ++g) {
      Communicator comm;
      comm.id = g == groups ? "0/world" : std::to_string(g + 1) + "/tp_" + std::to_string(g);
      comm.name = g == groups ? "world" : "tp";
      comm.size = g == groups ? groups * size : size;
      for (int m = 0; m < comm.size; ++m) comm.members.push_back((g == groups ? 0 : g * size) + m);
      b.comms.push_back(comm);
    }
    for (int r = 0; r < groups * size; ++r) {
      Rank rank;
      rank.rank = r;
      rank.source = Source::kFlightRecorder;
      for (const int c : {r / size, groups}) {
        Membership ms;
        ms.comm = static_cast<uint32_t>(c);
        ms.member_rank = c == groups ? r : r % size;
        ms.issued = ms.completed = 0;
        rank.memberships.push_back(ms);
      }
      b.ranks.push_back(rank);
    }
    b.ranks_expected = groups * size;
    b.known_stalled = true;
  }

  // Adds a call on the rank's group (0) or the group of all ranks (1).
  void Add(int r, uint32_t membership, OpState state) {
    Rank& rank = b.ranks[static_cast<size_t>(r)];
    Op op;
    op.membership = membership;
    op.kind = ring::CallKind::kAllReduce;
    op.seq = ++rank.memberships[membership].issued;
    if (state == OpState::kCompleted) rank.memberships[membership].completed = op.seq;
    op.state = state;
    op.record_id = static_cast<int64_t>(rank.ops.size());
    op.enter_ns = 1'000'000 * (op.record_id + 1);
    rank.ops.push_back(op);
  }
  void Lose(int r) {
    std::erase_if(b.ranks, [&](const Rank& rank) { return rank.rank == r; });
  }

  Bundle b;
};

TEST(Beside, ARankWithoutDataThatNothingHoldsUpIsReportedToo) {
  for (bool held : {false, true}) {
    GroupsAndWorld dumps(4, 2);
    for (int r = 0; r < 8; ++r) {
      dumps.Add(r, 0, OpState::kCompleted);
      // If `held`, the operation of all ranks comes first and has not ended for any rank, because rank 0 never
      // arrived.
      if (r != 0 || !held) dumps.Add(r, 1, held ? OpState::kIncomplete : OpState::kCompleted);
      // Ranks that meet rank 0 or rank 5 there are in the operation; the others have completed theirs.
      if (r != 0 && (!held || r == 4)) dumps.Add(r, 0, r == 1 || r == 4 ? OpState::kIncomplete : OpState::kCompleted);
    }
    dumps.Lose(5);
    const Verdict v = Analyze(dumps.b);
    ASSERT_GE(v.findings_size(), 1) << v.DebugString();
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{0}) << v.DebugString();
    if (held) {
      EXPECT_EQ(v.findings_size(), 1) << "rank 5 may wait in the group of all: " << v.DebugString();
      continue;
    }
    ASSERT_EQ(v.findings_size(), 2) << v.DebugString();
    EXPECT_EQ(v.findings(1).kind(), RANK_NO_DATA);
    EXPECT_EQ(Culprits(v.findings(1)), std::vector<int32_t>{5});
  }
}

// If differing calls precede a group that was never ended, the rank is named only for the group.
TEST(Beside, AnOpenGroupTakesPrecedenceOverOddCalls) {
  Job job(2, 1, 4, 4);
  job.ranks[5].host_fault = HostFault::kStall;
  job.ranks[5].host_fault_at = job.Find(5, "tp", 2, 3);
  auto& program = job.ranks[5].program;
  const testing::Call again = program[job.Find(5, "world", 1, 1)];
  Bundle plain = job.Run();
  plain.ranks[5].threads[0].group_depth = 1;
  ASSERT_EQ(Analyze(plain).findings_size(), 1);
  EXPECT_EQ(Analyze(plain).findings(0).kind(), GROUP_LEFT_OPEN);
  program.insert(program.begin() + static_cast<std::ptrdiff_t>(job.Find(5, "tp", 2, 1)), again);
  ++job.ranks[5].host_fault_at;
  Bundle odd = job.Run();
  const Verdict without = Analyze(odd);
  ASSERT_GE(without.findings_size(), 1);
  odd.ranks[5].threads[0].group_depth = 1;
  const Verdict v = Analyze(odd);
  ASSERT_GE(v.findings_size(), 1);
  EXPECT_NE(without.findings(0).kind(), GROUP_LEFT_OPEN);
  EXPECT_EQ(v.findings(0).kind(), GROUP_LEFT_OPEN) << v.DebugString();
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5});
}

}  // namespace
}  // namespace lockstep
