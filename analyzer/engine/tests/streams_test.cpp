// Tests what an operation waits for on its own GPU: events recorded on other streams.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/engine/facts/mismatch.h"
#include "analyzer/engine/facts/waits.h"
#include "analyzer/testing/job.h"

namespace lockstep {
namespace {

using ring::CallKind;
using testing::Call;
using testing::HostFault;
using testing::Job;

Call On(int comm, int stream, size_t after = SIZE_MAX) {
  Call c;
  c.comm = comm;
  c.kind = CallKind::kAllReduce;
  c.count = 64;
  c.reduction = 0;
  c.stream = stream;
  c.site = static_cast<uint64_t>(100 + comm);
  c.after = after;
  return c;
}

// Rank 0 reduces with rank 1 on stream 0, and with rank 2 on stream 1. An event makes stream 1 wait for stream 0.
// Rank 1 is stuck. With `aside`, rank 0 also reduces with rank 3 on stream 2. Nothing depends on that stream, and
// rank 3 does not arrive either.
Bundle Dependent(bool aside, bool host_blocks) {
  Job job(1, 1, 4, 0);
  job.comms = {{"tp", {0, 1}}, {"dp", {0, 2}}, {"ep", {0, 3}}};
  auto& first = job.ranks[0].program;
  first.push_back(On(0, 0));
  if (aside) first.push_back(On(2, 2));
  first.push_back(On(1, 1, 0));
  if (host_blocks) first.push_back({});
  for (int r : {1, 2, 3}) job.ranks[r].program = {On(r - 1, 0), {}};
  job.ranks[1].host_fault = HostFault::kStall;
  job.ranks[1].host_fault_at = 0;
  if (aside) {
    job.ranks[3].host_fault = HostFault::kStall;
    job.ranks[3].host_fault_at = 0;
  } else {
    job.ranks[3].program.clear();
    job.comms.resize(2);
  }
  Bundle b = job.Run();
  // The GPU does not start an operation that an event delays.
  for (Op& op : b.ranks[0].ops) {
    if (op.stream == 1) op.state = OpState::kEnqueued;
  }
  b.ranks[0].process.life = Life::kRunning;  // in the job's model, a program that does not end in a wait is over
  const int64_t ticket = b.ranks[0].ops[0].ticket;
  b.ranks[0].streams[1].depends_on.push_back({0, static_cast<uint64_t>(ticket)});
  return b;
}

TEST(Streams, ARankWhoseOperationWaitsForAnotherStreamIsAVictim) {
  for (const bool host_blocks : {true, false}) {
    Bundle b = Dependent(false, host_blocks);
    std::erase_if(b.ranks, [](const Rank& r) { return r.rank == 3; });
    b.ranks_expected = 3;
    b.known_stalled = true;
    const Verdict v = Analyze(b);
    ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
    EXPECT_EQ(v.findings(0).kind(), RANK_NOT_ARRIVED) << v.DebugString();
    EXPECT_EQ(std::vector<int32_t>(v.findings(0).culprit_ranks().begin(), v.findings(0).culprit_ranks().end()),
              std::vector<int32_t>{1});
    // Rank 2 waits for rank 0. Rank 0's GPU waits for its other stream, which waits for rank 1.
    EXPECT_EQ(v.findings(0).victim_count(), 2) << v.DebugString();
    std::set<int32_t> in_chain;
    for (const ChainLink& link : v.findings(0).chain()) in_chain.insert(link.ranks().begin(), link.ranks().end());
    EXPECT_TRUE(in_chain.contains(2)) << v.DebugString();
  }
}

// The event identifies one of two streams. The operation does not wait for the other.
TEST(Streams, TheDependencyNamesTheStream) {
  Bundle b = Dependent(true, false);
  const auto ahead = [&](const Bundle& bundle) {
    const Model model(bundle, {});
    const std::vector<Mismatch> mismatches = FindMismatches(model);
    const WaitGraph graph(model, mismatches);
    std::set<uint32_t> streams;
    for (uint32_t q = 0; q < graph.queues.size(); ++q) {
      if (graph.queues[q].rank != 0 || graph.queues[q].stream != 1) continue;
      for (const Edge& e : graph.edges[graph.QueueNode(q)]) {
        EXPECT_TRUE(e.why == Why::kStreamOrder);
        if (e.why != Why::kStreamOrder) continue;
        streams.insert(graph.QueueOf(e.to).stream);
      }
    }
    return streams;
  };
  EXPECT_EQ(ahead(b), (std::set<uint32_t>{0}));
  // A completed event shows nothing. Any work issued earlier may then be what blocks the operation.
  b.ranks[0].streams[1].depends_on[0].ticket = 0;
  EXPECT_EQ(ahead(b), (std::set<uint32_t>{0, 2}));
}

// PyTorch gives NCCL no names, so users identify a communicator by its members.
TEST(CommText, ACommunicatorWithoutANameListsItsMembers) {
  Communicator comm;
  comm.id = "44e8ec155b0c1557";
  comm.size = 2;
  comm.members = {4, 5};
  EXPECT_EQ(GroupText(comm), "the group of ranks 4, 5");
  comm.members = {0, 8, 16, 24, 32, 40, 48, 56};
  comm.size = 8;
  EXPECT_EQ(GroupText(comm), "the group of ranks 0-56 in steps of 8");
  comm.members = {0, 1, 4, 9, 16, 25, 36, 49};
  EXPECT_EQ(GroupText(comm), "the group of 8 ranks (0 .. 49)");
  comm.members[3] = -1;
  EXPECT_EQ(GroupText(comm), "the group of 8 ranks");
  comm.members = {4, 5};
  comm.twin = 2;
  EXPECT_EQ(GroupText(comm), "group 2 of ranks 4, 5");
  comm.members_inferred = true;
  EXPECT_EQ(GroupText(comm), "a group with ranks 4, 5");
}

TEST(CommText, ANamedCommunicatorListsItsMembersIfOthersHaveItsName) {
  Bundle bundle;
  bundle.comms.resize(2);
  for (size_t i = 0; i < 2; ++i) {
    bundle.comms[i].name = "dp";
    bundle.comms[i].size = 2;
    bundle.comms[i].members = {static_cast<int32_t>(i), static_cast<int32_t>(i) + 4};
  }
  EXPECT_EQ(CommText(bundle, 1), "dp (ranks 1, 5)");
  bundle.comms[1].members_inferred = true;
  EXPECT_EQ(CommText(bundle, 1), "dp");
  bundle.comms[1].name = "tp_3";
  EXPECT_EQ(CommText(bundle, 0), "dp");
}

// As in PyTorch, tensor-parallel reductions are on the compute stream and data-parallel ones are on another. Once per
// step each stream waits for the other. Rank 1's GPU does not reach a reduction on its compute stream, although its
// CPU thread has finished the step.
TEST(Streams, AWaitAddedLaterHoldsUpNothing) {
  for (const bool recorded : {true, false}) {
    Job job(1, 1, 4, 0);
    job.comms = {{"tp_0", {0, 1}}, {"tp_1", {2, 3}}, {"dp_0", {0, 2}}, {"dp_1", {1, 3}}};
    for (int r = 0; r < 4; ++r) {
      const int tp = r / 2, dp = 2 + r % 2;
      auto& program = job.ranks[static_cast<size_t>(r)].program;
      for (int step = 0; step < 2; ++step) {
        const size_t begin = program.size();
        // The second step's first reduction waits for the first step's last one, because the compute stream waits for
        // it.
        program.push_back(On(tp, 0, step == 0 ? SIZE_MAX : begin - 1));
        program.push_back(On(tp, 0));
        program.push_back(On(dp, 1, begin + 1));
        program.push_back(On(dp, 1));
      }
      program.push_back({});
    }
    job.ranks[1].gpu_stall_at = 5;
    Bundle b = job.Run();
    b.known_stalled = true;
    for (Rank& rank : b.ranks) {
      std::vector<int64_t> last = {0, 0};
      for (const Op& op : rank.ops) last[op.stream] = std::max(last[op.stream], op.ticket);
      const auto after = [&](int64_t ticket) {
        return recorded ? static_cast<uint64_t>(ticket) : ring::StreamSnapshot::kAfterUnknown;
      };
      rank.streams[1].depends_on.push_back({0, static_cast<uint64_t>(last[0]), after(2)});
      rank.streams[0].depends_on.push_back({1, static_cast<uint64_t>(last[1]), after(last[0])});
    }
    const Verdict v = Analyze(b);
    ASSERT_EQ(v.findings_size(), 1) << recorded << v.DebugString();
    EXPECT_EQ(v.findings(0).kind(), GPU_STALL) << recorded << v.DebugString();
    EXPECT_EQ(std::vector<int32_t>(v.findings(0).culprit_ranks().begin(), v.findings(0).culprit_ranks().end()),
              std::vector<int32_t>{1});
    EXPECT_EQ(v.findings(0).victim_count(), 3) << v.DebugString();
  }
}

// Rank 1 receives from rank 0 and sends to rank 2 in one group. Rank 0 has completed its side, so the operation
// between ranks 1 and 2 is stuck.
TEST(Streams, TheHalfOfAGroupThatThePeerCompletedIsNotStuck) {
  for (const bool first : {true, false}) {
    Job job(1, 1, 1, 1);
    job.comms = {{"pp", {0, 1, 2}}};
    job.ranks = std::vector<testing::JobRank>(3);
    const auto call = [](ring::CallKind kind, int peer, int group) {
      testing::Call c{0, kind, 256, 7, ring::kNoReduction, peer, 1};
      c.group = group;
      return c;
    };
    job.ranks[0].program = {call(ring::CallKind::kSend, 1, 0)};
    job.ranks[1].program = {call(ring::CallKind::kRecv, 0, 1), call(ring::CallKind::kSend, 2, 1)};
    if (!first) std::swap(job.ranks[1].program[0], job.ranks[1].program[1]);
    job.ranks[2].program = {call(ring::CallKind::kRecv, 1, 0)};
    Bundle b = job.Run();
    for (Rank& rank : b.ranks) {
      rank.process.life = Life::kRunning;
      for (Op& op : rank.ops) {
        ASSERT_EQ(op.state, OpState::kCompleted);
        if (rank.rank > 0) op.state = OpState::kStarted;
      }
      if (rank.rank > 0) rank.threads[0].wait = ring::CallKind::kStreamSynchronize;
    }
    const Verdict v = Analyze(b);
    ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
    EXPECT_EQ(v.findings(0).kind(), COLLECTIVE_STUCK);
    EXPECT_EQ(std::vector<int32_t>(v.findings(0).culprit_ranks().begin(), v.findings(0).culprit_ranks().end()),
              (std::vector<int32_t>{1, 2}))
        << v.DebugString();
  }
}

// Two ranks send to each other, each in a group that does not end. The record of the groups is lost. Even then, a
// call that has begun does not wait for an earlier one.
TEST(Streams, ACallThatHasBegunWaitsForNothingOnItsStream) {
  for (const OpState second : {OpState::kStarted, OpState::kEnqueued}) {
    Job job(1, 1, 1, 1);
    job.comms = {{"pp", {0, 1}}};
    job.ranks = std::vector<testing::JobRank>(2);
    for (int r : {0, 1}) {
      for (const auto kind : {ring::CallKind::kSend, ring::CallKind::kRecv}) {
        testing::Call c{0, kind, 256, 7, ring::kNoReduction, 1 - r, 1};
        c.group = 1;
        job.ranks[r].program.push_back(c);
      }
    }
    Bundle b = job.Run();
    for (Rank& rank : b.ranks) {
      rank.process.life = Life::kRunning;
      rank.threads[0].wait = ring::CallKind::kStreamSynchronize;
      ASSERT_EQ(rank.ops.size(), 2u);
      for (Op& op : rank.ops) {
        op.group = 0;
        op.state = &op == &rank.ops[0] ? OpState::kStarted : second;
      }
    }
    const Verdict v = Analyze(b);
    ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
    EXPECT_EQ(v.findings(0).kind(), second == OpState::kStarted ? COLLECTIVE_STUCK : DEADLOCK_CYCLE) << v.DebugString();
  }
}

}  // namespace
}  // namespace lockstep
