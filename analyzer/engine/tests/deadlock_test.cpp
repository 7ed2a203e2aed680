// Tests ranks that wait for each other, GPUs that choose their own order, and exchanges whose sizes do not match.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/engine/engine.h"
#include "analyzer/testing/job.h"

namespace lockstep {
namespace {

using ring::CallKind;
using testing::Call;
using testing::HostFault;
using testing::Job;
using testing::JobRank;

// A job with these communicators and empty programs. The caller adds the calls.
Job Empty(int ranks, std::vector<testing::JobComm> comms) {
  Job job(1, 1, ranks, 0);
  job.comms = std::move(comms);
  return job;
}

Call On(int comm, CallKind kind, int stream = 0, int64_t count = 64) {
  Call c;
  c.comm = comm;
  c.kind = kind;
  c.count = count;
  c.reduction = kind == CallKind::kAllReduce ? 0 : ring::kNoReduction;
  c.stream = stream;
  c.site = static_cast<uint64_t>(100 + comm);
  return c;
}

Call P2p(int comm, CallKind kind, int peer, int64_t count = 64, int group = 0) {
  Call c = On(comm, kind, 0, count);
  c.root_or_peer = peer;
  c.group = group;
  return c;
}

std::vector<int32_t> Culprits(const Verdict& v) {
  if (v.findings_size() == 0) return {};
  return {v.findings(0).culprit_ranks().begin(), v.findings(0).culprit_ranks().end()};
}

void Expect(const Verdict& v, FindingKind kind, const std::vector<int32_t>& ranks) {
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(FindingKind_Name(v.findings(0).kind()), FindingKind_Name(kind)) << v.DebugString();
  EXPECT_EQ(Culprits(v), ranks) << v.DebugString();
}

bool AnyEvidence(const Verdict& v, const std::string& part) {
  for (const Evidence& e : v.findings(0).evidence()) {
    if (absl::StrContains(e.text(), part)) return true;
  }
  return false;
}

TEST(Deadlock, TwoCommunicatorsInOppositeOrdersAreAnInversion) {
  for (bool marks : {true, false}) {
    Job job = Empty(2, {{"a", {0, 1}}, {"b", {0, 1}}});
    job.full_marks = marks;
    for (int s = 0; s < 8; ++s) {
      for (JobRank& r : job.ranks)
        r.program.insert(r.program.end(), {On(0, CallKind::kAllReduce), On(1, CallKind::kAllGather), {}});
    }
    std::swap(job.ranks[1].program[21], job.ranks[1].program[22]);
    const Verdict v = Analyze(job.Run());
    // Both ranks used the same order in earlier steps, so rank 1 is the one that deviated.
    Expect(v, ORDER_INVERSION, {1});

    // Without earlier steps, both ranks are named, with both orders and call sites.
    for (JobRank& r : job.ranks) r.program.erase(r.program.begin(), r.program.begin() + 21);
    const Verdict first = Analyze(job.Run());
    Expect(first, ORDER_INVERSION, {0, 1});
    EXPECT_TRUE(
        AnyEvidence(first, "rank 0 called AllReduce #1 on a (called from 00000001+0x64), then AllGather #1 on b"))
        << first.DebugString();
    EXPECT_TRUE(
        AnyEvidence(first, "rank 1 called AllGather #1 on b (called from 00000001+0x65), then AllReduce #1 on a"))
        << first.DebugString();
  }
}

// The CPU thread waits after each call, so no rank has issued both calls.
TEST(Deadlock, OppositeOrdersOfBlockingCallsAreACycle) {
  Job job = Empty(2, {{"a", {0, 1}}, {"b", {0, 1}}});
  job.ranks[0].program = {On(0, CallKind::kAllReduce), {}, On(1, CallKind::kAllReduce), {}};
  job.ranks[1].program = {On(1, CallKind::kAllReduce), {}, On(0, CallKind::kAllReduce), {}};
  const Verdict v = Analyze(job.Run());
  Expect(v, DEADLOCK_CYCLE, {0, 1});
  EXPECT_TRUE(absl::StrContains(v.findings(0).summary(), "cycle over 2 communicators: a, b")) << v.DebugString();
}

TEST(Deadlock, AFewRanksInAnotherOperationThanTheRestOfACycleAreNamed) {
  for (const int odd : {1, 2}) {
    Job job = Empty(4, {{"a", {0, 1, 2, 3}}, {"b", {0, 1, 2, 3}}});
    for (int r = 0; r < 4; ++r) {
      // A rank that skipped a call of "a" gives a later call the number of the skipped one, and issues it from
      // another place.
      Call later = On(0, CallKind::kAllReduce);
      later.site = 999;
      job.ranks[r].program = {On(0, CallKind::kAllReduce), {}, On(1, CallKind::kAllGather), {}};
      if (r >= 4 - odd) job.ranks[r].program = {On(1, CallKind::kAllGather), later, {}};
    }
    const Verdict v = Analyze(job.Run());
    Expect(v, DEADLOCK_CYCLE, odd == 1 ? std::vector<int32_t>{3} : std::vector<int32_t>{0, 1, 2, 3});
    EXPECT_EQ(absl::StrContains(v.findings(0).summary(), "instead: an earlier call is missing or extra"), odd == 1)
        << v.DebugString();
  }
}

// Only two ranks of the cycle have both calls in flight, each in a different order. The others have completed the
// first call.
TEST(Deadlock, RanksThatArePastBothCallsShowTheUsualOrder) {
  constexpr int kStages = 4;
  std::vector<testing::JobComm> comms = {
      {"world", {0, 1, 2, 3, 4, 5, 6, 7}}, {"pp_0", {0, 2, 4, 6}}, {"pp_1", {1, 3, 5, 7}}};
  for (int stage = 0; stage < kStages; ++stage)
    comms.push_back({absl::StrCat("tp_", stage), {2 * stage, 2 * stage + 1}});
  Job job = Empty(2 * kStages, std::move(comms));
  size_t swapped = 0;
  for (int step = 0; step < 3; ++step) {
    for (int r = 0; r < 2 * kStages; ++r) {
      const int stage = r / 2, pipe = 1 + r % 2;
      std::vector<Call>& program = job.ranks[static_cast<size_t>(r)].program;
      if (stage > 0) program.push_back(P2p(pipe, CallKind::kRecv, stage - 1));
      if (r == 4) swapped = program.size();
      program.push_back(On(3 + stage, CallKind::kAllReduce));
      if (stage + 1 < kStages) program.push_back(P2p(pipe, CallKind::kSend, stage + 1));
      program.push_back(On(0, CallKind::kAllReduce));
      program.emplace_back();
    }
  }
  std::vector<Call>& odd = job.ranks[4].program;
  std::swap(odd[swapped], odd[swapped + 2]);
  const Verdict v = Analyze(job.Run());
  Expect(v, ORDER_INVERSION, {4});
  EXPECT_EQ(v.findings(0).reason(), REASON_OUT_OF_ORDER);
}

// Two ranks, in different groups of one kind, skipped a call on the world and are a step ahead. Their current
// operations have different numbers; the others are in one operation.
TEST(Deadlock, AFewRanksInDifferentGroupsThatSkippedACallAreNamed) {
  std::vector<testing::JobComm> comms = {
      {"world", {0, 1, 2, 3, 4, 5, 6, 7}}, {"tp_0", {0, 1, 2, 3}}, {"tp_1", {4, 5, 6, 7}}};
  for (const bool several : {true, false}) {
    Job job = Empty(8, comms);
    for (int r = 0; r < 8; ++r) {
      std::vector<Call>& program = job.ranks[static_cast<size_t>(r)].program;
      const int tp = 1 + r / 4;
      for (int step = 0; step < 3; ++step) {
        // In each step, the second group makes one round more than the first.
        for (int round = 0; round < tp; ++round) program.push_back(On(tp, CallKind::kAllGather));
        const bool left_out = step == 1 && (r == 1 || r == 6 || (!several && r < 4));
        if (!left_out) program.push_back(On(0, CallKind::kAllReduce));
        program.emplace_back();
      }
    }
    const Verdict v = Analyze(job.Run());
    ASSERT_GE(v.findings_size(), 1);
    // Half of a job is not a few.
    EXPECT_EQ(Culprits(v) == (std::vector<int32_t>{1, 6}), several) << v.DebugString();
    // A damaged list names a member twice.
    Bundle damaged = job.Run();
    damaged.comms[0].members[7] = damaged.comms[0].members[0];
    Analyze(damaged);
  }
}

TEST(Deadlock, ThreeCommunicatorsFormACycle) {
  Job job = Empty(4, {{"a", {0, 1}}, {"b", {1, 2}}, {"c", {2, 0}}, {"all", {0, 1, 2, 3}}});
  job.ranks[0].program = {On(0, CallKind::kAllReduce), On(2, CallKind::kAllReduce), On(3, CallKind::kAllReduce), {}};
  job.ranks[1].program = {On(1, CallKind::kAllReduce), On(0, CallKind::kAllReduce), On(3, CallKind::kAllReduce), {}};
  job.ranks[2].program = {On(2, CallKind::kAllReduce), On(1, CallKind::kAllReduce), On(3, CallKind::kAllReduce), {}};
  job.ranks[3].program = {On(3, CallKind::kAllReduce), {}};
  const Verdict v = Analyze(job.Run());
  Expect(v, DEADLOCK_CYCLE, {0, 1, 2});
  EXPECT_TRUE(absl::StrContains(v.findings(0).summary(), "3 communicators: a, b, c")) << v.DebugString();
  EXPECT_EQ(v.findings(0).victim_count(), 1) << v.DebugString();
}

TEST(Deadlock, TwoRanksThatBothSendFirstFormACycle) {
  Job job = Empty(3, {{"pp", {0, 1, 2}}});
  job.ranks[0].program = {P2p(0, CallKind::kSend, 1), {}, P2p(0, CallKind::kRecv, 1), {}};
  job.ranks[1].program = {P2p(0, CallKind::kSend, 0), {}, P2p(0, CallKind::kRecv, 0), P2p(0, CallKind::kSend, 2), {}};
  job.ranks[2].program = {P2p(0, CallKind::kRecv, 1), {}};
  const Verdict v = Analyze(job.Run());
  Expect(v, DEADLOCK_CYCLE, {0, 1});
  EXPECT_TRUE(absl::StrContains(v.findings(0).summary(), "sends")) << v.DebugString();
}

TEST(Deadlock, ACycleOnlyInDamagedRecordsIsAHypothesis) {
  Job job = Empty(2, {{"pp", {0, 1}}});
  for (int r = 0; r < 2; ++r)
    job.ranks[static_cast<size_t>(r)].program = {
        P2p(0, CallKind::kSend, 1 - r), {}, P2p(0, CallKind::kRecv, 1 - r), {}};
  Bundle b = job.Run();
  b.ranks[0].damaged = true;
  Verdict v = Analyze(b);
  Expect(v, DEADLOCK_CYCLE, {0, 1});
  EXPECT_FALSE(v.findings(0).hypothesis()) << "rank 1's wait is known";
  b.ranks[1].damaged = true;
  v = Analyze(b);
  Expect(v, DEADLOCK_CYCLE, {0, 1});
  EXPECT_TRUE(v.findings(0).hypothesis());
  EXPECT_LT(v.findings(0).confidence(), 0.5);
  EXPECT_TRUE(absl::StrContains(v.findings(0).alternatives(0), "damaged record")) << v.DebugString();
}

// Every CPU thread calls a, then b, on separate streams. Rank 1's GPU begins b first and keeps a waiting.
Job TwoOrders() {
  Job job = Empty(2, {{"a", {0, 1}}, {"b", {0, 1}}});
  for (int s = 0; s < 2; ++s) {
    for (JobRank& r : job.ranks)
      r.program.insert(r.program.end(), {On(0, CallKind::kAllReduce, 1), On(1, CallKind::kAllReduce, 2), {}});
  }
  job.ranks[0].program[4].after = 3;
  job.ranks[1].program[3].after = 4;
  return job;
}

TEST(Deadlock, GpusThatChooseDifferentOrdersAreAHypothesis) {
  const Verdict v = Analyze(TwoOrders().Run());
  Expect(v, DEADLOCK_CYCLE, {0, 1});
  EXPECT_TRUE(v.findings(0).hypothesis());
  EXPECT_LE(v.findings(0).confidence(), 0.7);
  EXPECT_TRUE(absl::StrContains(v.findings(0).tells_apart(), "NCCL_LAUNCH_ORDER_IMPLICIT")) << v.DebugString();
  EXPECT_GE(v.findings(0).alternatives_size(), 1);
}

TEST(Deadlock, WithoutStartMarkersGpuOrderIsOneOfSeveralHypotheses) {
  Job job = TwoOrders();
  job.full_marks = false;
  const Verdict v = Analyze(job.Run());
  ASSERT_GE(v.findings_size(), 1);
  EXPECT_EQ(Culprits(v), (std::vector<int32_t>{0, 1}));
  bool said = v.findings(0).hypothesis();
  for (const std::string& a : v.findings(0).alternatives()) said |= absl::StrContains(a, "order");
  EXPECT_TRUE(said) << v.DebugString();
  EXPECT_LE(v.findings(0).confidence(), 0.6);
  for (const NotTheCause& not_it : v.ruled_out()) EXPECT_NE(not_it.what(), NotTheCause::NETWORK) << v.DebugString();
}

// A kernel that never finishes precedes the operation on one stream. The other stream continues as far as it can.
TEST(Deadlock, AStreamThatDoesNotReachTheOperationBlamesTheGpu) {
  for (bool full : {true, false}) {
    Job job(2, 2, 2, 4);
    job.full_marks = full;
    for (JobRank& r : job.ranks) {
      for (Call& c : r.program) c.stream = c.comm < 0 ? 0 : job.comms[c.comm].name[0] == 't' ? 1 : 2;
    }
    job.ranks[5].gpu_stall_at = job.Find(5, "tp", 2, 3);
    const Verdict v = Analyze(job.Run());
    if (full) {
      Expect(v, GPU_STALL, {5});
    } else {
      ASSERT_GE(v.findings_size(), 1);
      const std::vector<int32_t> got = Culprits(v);
      EXPECT_TRUE(std::find(got.begin(), got.end(), 5) != got.end() && got.size() <= 2) << v.DebugString();
    }
  }
}

// Both ranks are in the exchange, one in the send and one in the receive. The driver reported an error on one of the
// two GPUs.
TEST(Deadlock, AnErrorOfOneGpuIdentifiesTheFaultyEndOfAnExchange) {
  for (int failed : {0, 1}) {
    Job job = Empty(2, {{"pp", {0, 1}}});
    for (int s = 0; s < 3; ++s) {
      job.ranks[0].program.insert(job.ranks[0].program.end(), {P2p(0, CallKind::kSend, 1), {}});
      job.ranks[1].program.insert(job.ranks[1].program.end(), {P2p(0, CallKind::kRecv, 0), {}});
    }
    Bundle b = job.Run();
    for (Rank& r : b.ranks) {
      r.ops.back().state = OpState::kStarted;
      r.process.life = Life::kRunning;
      r.threads[0].wait = CallKind::kStreamSynchronize;
    }
    Expect(Analyze(b), COLLECTIVE_STUCK, {0, 1});
    b.ranks[failed].streams[0].first_error = 719;
    Expect(Analyze(b), GPU_STALL, {failed});
  }
}

// Other ranks wait for both.
TEST(Deadlock, TwoFaultsOnTwoStreamsAreBothNamed) {
  Job job = Empty(4, {{"a", {0, 1}}, {"b", {0, 2}}, {"c", {0, 3}}});
  for (int s = 0; s < 2; ++s) {
    job.ranks[0].program.insert(job.ranks[0].program.end(),
                                {On(0, CallKind::kAllReduce, 1), On(1, CallKind::kAllReduce, 2), {}});
    job.ranks[1].program.insert(job.ranks[1].program.end(), {On(0, CallKind::kAllReduce, 1), {}});
    job.ranks[2].program.insert(job.ranks[2].program.end(), {On(1, CallKind::kAllReduce, 2), {}});
  }
  for (int r : {1, 2}) {
    job.ranks[r].host_fault = HostFault::kStall;
    job.ranks[r].host_fault_at = 2;
  }
  Expect(Analyze(job.Run()), HOST_STALL, {1, 2});
}

// An exchange between all ranks in one group. Rank i sends Size(i, j, n) elements to rank j.
int64_t Size(int i, int j, int n) { return i == j ? 40 : (i + j) % 2 == 0 ? 10 + n : 30 - n; }

Job Exchange(int ranks, int exchanges) {
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) all.push_back(r);
  Job job = Empty(ranks, {{"ep", all}});
  for (int n = 0; n < exchanges; ++n) {
    for (int r = 0; r < ranks; ++r) {
      for (int p = 0; p < ranks; ++p) {
        if (p == r) continue;
        // Every second exchange returns what the previous one sent.
        const int64_t send = n % 2 == 0 ? Size(r, p, n) : Size(p, r, n - 1),
                      recv = n % 2 == 0 ? Size(p, r, n) : Size(r, p, n - 1);
        job.ranks[r].program.push_back(P2p(0, CallKind::kSend, p, send, n + 1));
        job.ranks[r].program.push_back(P2p(0, CallKind::kRecv, p, recv, n + 1));
      }
      job.ranks[r].program.push_back({});
    }
  }
  return job;
}

Call* InExchange(Job* job, int rank, CallKind kind, int peer, int n) {
  for (Call& c : job->ranks[rank].program) {
    if (c.kind == kind && c.root_or_peer == peer && c.group == n + 1) return &c;
  }
  return nullptr;
}

TEST(Splits, UnequalSizesAreLegal) {
  const Verdict v = Analyze(Exchange(4, 4).Run());
  EXPECT_EQ(v.findings_size(), 0) << v.DebugString();
}

TEST(Splits, TheSideWhoseSizesDoNotMatchIsNamed) {
  for (int n : {2, 3}) {
    for (bool hangs : {true, false}) {
      SCOPED_TRACE(absl::StrCat("exchange ", n));
      Job sender = Exchange(4, 4);
      sender.mismatch_hangs = hangs;
      InExchange(&sender, 1, CallKind::kSend, 3, n)->count += 7;
      Expect(Analyze(sender.Run()), MISMATCH_SPLITS, {1});
      Job receiver = Exchange(4, 4);
      receiver.mismatch_hangs = hangs;
      InExchange(&receiver, 3, CallKind::kRecv, 1, n)->count += 7;
      Expect(Analyze(receiver.Run()), MISMATCH_SPLITS, {3});
    }
  }
}

// One rank uses a different size towards all others. A single pair would not show which side is wrong.
TEST(Splits, ARankThatDiffersFromSeveralIsNamed) {
  for (const int ranks : {3, 4, 8}) {
    for (const int odd : {0, ranks - 1}) {
      for (const bool receives : {false, true}) {
        Job job = Exchange(ranks, 1);
        for (int r = 0; r < ranks; ++r) {
          for (Call& c : job.ranks[r].program) {
            if (c.kind == CallKind::kNone) continue;
            // Sums show nothing here.
            c.count += c.kind == CallKind::kSend ? 3 * r : 3 * c.root_or_peer;
            if (r == odd && (c.kind == CallKind::kSend || receives)) c.count /= 2;
          }
        }
        SCOPED_TRACE(absl::StrCat(ranks, " ranks, rank ", odd));
        const Verdict v = Analyze(job.Run());
        Expect(v, MISMATCH_SPLITS, {odd});
        // The others are stuck in the exchange because of this rank.
        EXPECT_EQ(v.findings_size(), 1) << v.DebugString();
        EXPECT_EQ(v.findings(0).victim_count(), ranks - 1) << v.DebugString();
        EXPECT_GE(v.findings(0).confidence(), 0.9) << v.DebugString();
      }
    }
  }
}

TEST(Splits, ThePairIsNamedIfNothingIdentifiesTheSide) {
  Job job = Exchange(4, 1);
  for (int r = 0; r < 4; ++r) {
    for (Call& c : job.ranks[r].program) c.count += c.kind == CallKind::kSend ? 3 * r : 3 * c.root_or_peer;
  }
  InExchange(&job, 1, CallKind::kSend, 3, 0)->count += 7;
  const Verdict v = Analyze(job.Run());
  Expect(v, MISMATCH_SPLITS, {1, 3});
  EXPECT_EQ(v.findings(0).alternatives_size(), 2) << v.DebugString();
}

// A stage sends past its neighbor. The same stage of another pipeline shows the right peer.
TEST(PointToPoint, TheSenderToAWrongPeerIsNamed) {
  for (int dp : {1, 2, 4}) {
    Job job(2, 4, dp, 6);
    const int rank = 2 * dp + 1;  // second stage
    const size_t at = job.Find(rank, "pp", 4, 1);
    ASSERT_EQ(job.ranks[rank].program[at].kind, CallKind::kSend);
    job.ranks[rank].program[at].root_or_peer = 3;
    Expect(Analyze(job.Run()), P2P_UNMATCHED, {rank});
  }
}

// Without GPU progress markers, no record shows which call a GPU is in. The calls after the exchanges show two things:
// the peer of the odd send never received it, and another rank waits for the send that its neighbor made to that peer
// instead. The peer may be a new one, or the neighbor on the other side.
TEST(PointToPoint, TheSenderToAWrongPeerIsNamedWithoutMarks) {
  for (const int wrong : {0, 3}) {
    Job job = Empty(4, {{"world", {0, 1, 2, 3}}, {"pp", {0, 1, 2, 3}}});
    for (int r = 0; r < 4; ++r) {
      std::vector<Call>& program = job.ranks[static_cast<size_t>(r)].program;
      for (int step = 0; step < 6; ++step) {
        if (r > 0) program.push_back(P2p(1, CallKind::kRecv, r - 1));
        if (r < 3) program.push_back(P2p(1, CallKind::kSend, step == 5 && r == 1 ? wrong : r + 1));
        if (r < 3) program.push_back(P2p(1, CallKind::kRecv, r + 1));
        if (r > 0) program.push_back(P2p(1, CallKind::kSend, r - 1));
        program.push_back(On(0, CallKind::kAllReduce));
        program.emplace_back();
      }
    }
    Expect(Analyze(testing::WithoutMarks(job.Run())), P2P_UNMATCHED, {1});
  }
}

// The others wait for the odd rank in a collective, so the cycle contains more than sends and receives.
TEST(PointToPoint, TheSenderToAWrongPeerIsNamedInACycleWithCollectives) {
  Job job = Empty(4, {{"all", {0, 1, 2, 3}}});
  for (int step = 1; step <= 3; ++step) {
    for (int r = 0; r < 4; ++r) {
      std::vector<Call>& program = job.ranks[static_cast<size_t>(r)].program;
      for (int from = 1; r == 0 && from < 4; ++from) {
        program.push_back(P2p(0, CallKind::kRecv, from));
        program.back().group = step;
      }
      if (r > 0) program.push_back(P2p(0, CallKind::kSend, r == 1 && step == 3 ? 2 : 0));
      program.push_back(On(0, CallKind::kAllReduce));
      program.emplace_back();
    }
  }
  Expect(Analyze(job.Run()), P2P_UNMATCHED, {1});
}

// The GPU of each rank waits for a call that the other has not made. Unless a stack shows the CPU thread, it may only
// wait for space in the queue of its GPU.
TEST(Deadlock, ProcessesOutsideNcclMayWaitToLaunch) {
  for (const bool stack : {false, true}) {
    Job job = Empty(2, {{"a", {0, 1}}, {"b", {0, 1}}});
    for (int r = 0; r < 2; ++r) {
      JobRank& rank = job.ranks[static_cast<size_t>(r)];
      rank.program = {On(r, CallKind::kAllReduce), On(1 - r, CallKind::kAllReduce)};
      rank.host_fault = HostFault::kStall;
      rank.host_fault_at = 1;
    }
    Bundle b = job.Run();
    for (Rank& r : b.ranks) {
      if (stack) r.process.stack = {"read (read.c:26)", "main (train.cpp:1)"};
    }
    const Verdict v = Analyze(b);
    ASSERT_GE(v.findings_size(), 1);
    EXPECT_EQ(v.findings(0).kind(), HOST_STALL);
    EXPECT_EQ(v.findings(0).confidence() > 0.9, stack) << v.DebugString();
  }
}

// One replica ended. In the other replica, a rank made an extra call on the communicator of both replicas. So the rest
// of its replica waits for it in the next call.
TEST(Deadlock, ReplicasThatEndedAreNotToBlameForAnExtraCall) {
  Job job = Empty(8, {{"world", {0, 1, 2, 3, 4, 5, 6, 7}}, {"tp_0", {0, 1, 2, 3}}, {"tp_1", {4, 5, 6, 7}}});
  for (int r = 0; r < 8; ++r) {
    std::vector<Call>& program = job.ranks[static_cast<size_t>(r)].program;
    program = {On(0, CallKind::kAllReduce), On(0, CallKind::kAllReduce), {}};
    for (int step = 0; step < 6; ++step) {
      if (r == 1 && step == 5) program.push_back(On(0, CallKind::kAllReduce));
      program.push_back(On(r < 4 ? 1 : 2, CallKind::kAllReduce));
      program.emplace_back();
    }
  }
  Bundle b = job.Run();
  for (Rank& r : b.ranks) r.process.life = r.rank < 4 ? Life::kRunning : Life::kExited;
  Expect(Analyze(b), RANK_AHEAD, {1});
}

// If one rank of a pair exited, the pair does not show which of the two made a wrong number of calls.
TEST(Deadlock, IfAllOthersEndedTheLastRankOfAPairMadeAnExtraCall) {
  for (const bool ended : {true, false}) {
    Job job = Empty(4, {{"world", {0, 1, 2, 3}}, {"ends", {0, 3}}});
    for (int r = 0; r < 4; ++r) {
      std::vector<Call>& program = job.ranks[static_cast<size_t>(r)].program;
      for (int step = 0; step < 4; ++step) {
        program.push_back(On(0, CallKind::kAllReduce));
        if (r % 3 == 0) program.push_back(On(1, CallKind::kAllReduce));
        program.emplace_back();
      }
      if (r == 3) program.push_back(On(1, CallKind::kAllReduce));
    }
    Bundle b = job.Run();
    for (Rank& r : b.ranks) r.process.life = r.rank == 0 || (ended && r.rank < 3) ? Life::kExited : Life::kRunning;
    Expect(Analyze(b), ended ? RANK_AHEAD : RANK_DEAD, {ended ? 3 : 0});
  }
}

// One rank closed the cycle: its send is its first ever to that peer, which has no receive for it.
TEST(PointToPoint, ARankOfACycleThatSentToANewPeerIsNamed) {
  for (bool met : {false, true}) {
    Job job = Empty(3, {{"pp", {0, 1, 2}}});
    auto& p = job.ranks;
    if (met) {
      p[0].program = {P2p(0, CallKind::kSend, 2)};
      p[2].program = {P2p(0, CallKind::kRecv, 0)};
    }
    for (int n = 0; n < 10; ++n) {
      p[0].program.push_back(P2p(0, CallKind::kSend, 1));
      p[1].program.push_back(P2p(0, CallKind::kRecv, 0));
      p[1].program.push_back(P2p(0, CallKind::kSend, 2));
      p[2].program.push_back(P2p(0, CallKind::kRecv, 1));
    }
    p[0].program.push_back(P2p(0, CallKind::kSend, 2));
    p[0].program.push_back({});
    for (auto* list : {&p[1].program, &p[2].program}) {
      list->push_back(P2p(0, CallKind::kRecv, list == &p[1].program ? 0 : 1));
      list->push_back({});
    }
    p[1].program.push_back(P2p(0, CallKind::kSend, 2));
    p[2].program.push_back(P2p(0, CallKind::kRecv, 0));
    for (auto& rank : p) rank.program.push_back({});
    const Verdict v = Analyze(job.Run());
    ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
    if (met) {
      EXPECT_EQ(v.findings(0).kind(), DEADLOCK_CYCLE) << v.DebugString();
    } else {
      EXPECT_EQ(v.findings(0).kind(), P2P_UNMATCHED) << v.DebugString();
      EXPECT_EQ(Culprits(v), std::vector<int32_t>{0}) << v.DebugString();
    }
  }
}

// Two ranks have one role, and one of them skips or adds a call. Their earlier steps show which. The rank's partner
// left no data, and all ranks that wait for either of the two wait for the partner first. One member's record does
// not prove that both members of a pair skipped the call.
TEST(Siblings, ASkippedCallIsNamedIfThePartnersDataIsMissing) {
  Job skip(2, 2, 2, 6);
  auto& shorter = skip.ranks[5].program;
  shorter.erase(shorter.begin() + static_cast<ptrdiff_t>(skip.Find(5, "tp", 4, 9)));
  Bundle bundle = skip.Run();
  std::erase_if(bundle.ranks, [](const Rank& rank) { return rank.rank == 4; });
  const Verdict v = Analyze(bundle);
  EXPECT_EQ(Culprits(v), std::vector<int32_t>{5}) << v.DebugString();
}

TEST(Siblings, EarlierStepsDistinguishTwoRanksOfOneRole) {
  for (int rank : {0, 3}) {
    Job skip(2, 2, 1, 6);
    auto& shorter = skip.ranks[rank].program;
    shorter.erase(shorter.begin() + static_cast<ptrdiff_t>(skip.Find(rank, "tp", 4, 9)));
    Expect(Analyze(skip.Run()), RANK_NOT_ARRIVED, {rank});
    Job extra(2, 2, 1, 6);
    auto& longer = extra.ranks[rank].program;
    const size_t at = extra.Find(rank, "tp", 4, 9);
    longer.insert(longer.begin() + static_cast<ptrdiff_t>(at), longer[at]);
    longer[at].site = 99;
    Expect(Analyze(extra.Run()), RANK_AHEAD, {rank});
  }
}

// A rank of stage 2 stops before a call of its tensor-parallel group. Receives, gradients and the world wait for that
// rank.
TEST(Chain, LeadsFromTensorToPipelineToData) {
  Job job(2, 2, 2, 4);
  job.ranks[5].host_fault = HostFault::kStall;
  job.ranks[5].host_fault_at = job.Find(5, "tp", 2, 1);
  const Verdict v = Analyze(job.Run());
  Expect(v, HOST_STALL, {5});
  std::string chain;
  for (const ChainLink& link : v.findings(0).chain()) absl::StrAppend(&chain, link.communicator().name(), " ");
  EXPECT_TRUE(absl::StrContains(chain, "tp_") && absl::StrContains(chain, "pp_") && absl::StrContains(chain, "dp_"))
      << chain;
  EXPECT_EQ(v.findings(0).victim_count(), 7);
}

}  // namespace
}  // namespace lockstep
