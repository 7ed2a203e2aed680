#include "analyzer/engine/replay/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "analyzer/testing/job.h"

namespace lockstep::replay {
namespace {

using ring::CallKind;
using testing::HostFault;
using testing::JobComm;
using testing::JobRank;

Answer Ask(const Bundle& bundle, const JudgeOptions& options = {}) {
  Answer answer;
  AnalyzeAndLook(bundle, {}, [&](const AnalysisView& view) { answer = Judge(view, options); });
  return answer;
}

// Expects that the replay proves `kind` with `suspects`, but not with innocent ranks in their place.
void ExpectProved(const Bundle& bundle, FindingKind kind, const std::vector<int32_t>& suspects) {
  const Answer answer = Ask(bundle);
  EXPECT_EQ(FindingKind_Name(answer.kind), FindingKind_Name(kind));
  ASSERT_EQ(answer.suspects, suspects) << answer.proof.text();
  EXPECT_EQ(answer.proof.result(), Proof::PROVED) << answer.proof.text();
  EXPECT_GT(answer.proof.calls(), 0);
  for (const Rank& rank : bundle.ranks) {
    if (std::find(suspects.begin(), suspects.end(), rank.rank) != suspects.end()) continue;
    const Answer other = Ask(bundle, {.suspects = {rank.rank}});
    EXPECT_NE(other.proof.result(), Proof::PROVED) << "rank " << rank.rank << ": " << other.proof.text();
  }
}

testing::Job WithFault(HostFault fault) {
  testing::Job job(2, 2, 2, 3);
  job.ranks[5].host_fault_at = job.Find(5, "dp", 2);
  job.ranks[5].host_fault = fault;
  return job;
}

TEST(JudgeTest, AStalledRankContinues) { ExpectProved(WithFault(HostFault::kStall).Run(), HOST_STALL, {5}); }

TEST(JudgeTest, AStoppedProcessContinues) { ExpectProved(WithFault(HostFault::kStop).Run(), HOST_STALL, {5}); }

TEST(JudgeTest, ADeadProcessContinues) { ExpectProved(WithFault(HostFault::kDie).Run(), RANK_DEAD, {5}); }

TEST(JudgeTest, AStuckGpuContinues) {
  testing::Job job(2, 2, 2, 3);
  job.ranks[3].gpu_stall_at = job.Find(3, "tp", 2);
  const Answer answer = Ask(job.Run());
  EXPECT_EQ(answer.kind, GPU_STALL);
  EXPECT_EQ(answer.suspects, std::vector<int32_t>{3});
  EXPECT_EQ(answer.proof.result(), Proof::PROVED) << answer.proof.text();
}

TEST(JudgeTest, ASkippedCallIsAdded) {
  testing::Job job(4, 1, 2, 4);
  auto& program = job.ranks[2].program;
  program.erase(program.begin() + static_cast<std::ptrdiff_t>(job.Find(2, "tp", 2)));
  const Bundle bundle = job.Run();
  const Answer answer = Ask(bundle);
  EXPECT_EQ(answer.proof.correction(), Proof::ADD_CALLS) << answer.proof.text();
  ExpectProved(bundle, answer.kind, {2});
}

TEST(JudgeTest, SeveralSkippedCallsAreAdded) {
  for (const int skipped : {2, 12}) {
    testing::Job job(4, 1, 2, 8);
    auto& program = job.ranks[2].program;
    const auto is_tp = [&](const testing::Call& call) { return call.comm == job.CommOf(2, "tp"); };
    size_t at = job.Find(2, "tp", 2);
    for (int left = skipped; left > 0 && at < program.size();) {
      if (!is_tp(program[at])) {
        ++at;
        continue;
      }
      program.erase(program.begin() + static_cast<std::ptrdiff_t>(at));
      --left;
    }
    const Bundle bundle = job.Run();
    const Answer answer = Ask(bundle);
    EXPECT_EQ(answer.proof.corrected_calls(), skipped) << answer.proof.text();
    ExpectProved(bundle, answer.kind, {2});
  }
}

TEST(JudgeTest, AnExtraCallIsRemoved) {
  testing::Job job(4, 1, 2, 4);
  auto& program = job.ranks[2].program;
  const auto at = static_cast<std::ptrdiff_t>(job.Find(2, "tp", 2));
  program.insert(program.begin() + at, program[static_cast<size_t>(at)]);
  const Bundle bundle = job.Run();
  const Answer answer = Ask(bundle);
  EXPECT_EQ(answer.proof.correction(), Proof::REMOVE_CALLS) << answer.proof.text();
  ExpectProved(bundle, RANK_AHEAD, {2});
}

TEST(JudgeTest, WrongArgumentsAreCorrected) {
  testing::Job job(4, 1, 2, 4);
  job.ranks[2].program[job.Find(2, "tp", 2)].count *= 2;
  const Bundle bundle = job.Run();
  ExpectProved(bundle, MISMATCH_COUNT, {2});
  EXPECT_EQ(Ask(bundle).proof.correction(), Proof::SAME_ARGUMENTS);
}

// Four ranks exchange in one group. Rank i sends `Size(i, j)` elements to rank j and receives `Size(j, i)`.
testing::Job Exchange(const std::function<int64_t(int, int)>& size) {
  testing::Job job(1, 1, 4, 0);
  job.comms = {JobComm{"ep", {0, 1, 2, 3}}};
  job.ranks.assign(4, JobRank());
  for (int r = 0; r < 4; ++r) {
    for (int peer = 0; peer < 4; ++peer) {
      if (peer == r) continue;
      for (const CallKind kind : {CallKind::kSend, CallKind::kRecv}) {
        testing::Call call;
        call.comm = 0;
        call.kind = kind;
        call.root_or_peer = peer;
        call.group = 1;
        call.count = kind == CallKind::kSend ? size(r, peer) : size(peer, r);
        job.ranks[r].program.push_back(call);
      }
    }
    job.ranks[r].program.push_back({});
  }
  return job;
}

TEST(JudgeTest, SizesOfAnExchangeAreCorrected) {
  testing::Job job = Exchange([](int from, int to) { return 100 + 10 * from + to; });
  for (testing::Call& call : job.ranks[2].program) {
    if (call.kind == CallKind::kSend) call.count *= 2;
  }
  const Bundle bundle = job.Run();
  ExpectProved(bundle, MISMATCH_SPLITS, {2});
  EXPECT_EQ(Ask(bundle).proof.correction(), Proof::SAME_ARGUMENTS);
}

// What a member of an all-to-all sends may differ from what it receives, but the sums over all members must be equal.
TEST(JudgeTest, UnequalSumsOfAnAllToAllHang) {
  testing::Job job(4, 1, 1, 0);
  job.comms = {JobComm{"ep", {0, 1, 2, 3}}};
  job.ranks.assign(4, JobRank());
  for (int r = 0; r < 4; ++r) {
    testing::Call call;
    call.comm = 0;
    call.kind = CallKind::kAlltoAll;
    job.ranks[r].program = {call, {}};
  }
  Bundle bundle = job.Run();
  bundle.known_stalled = true;
  for (Rank& rank : bundle.ranks) {
    ASSERT_EQ(rank.ops.size(), 1u);
    rank.process.life = Life::kRunning;
    rank.ops[0].state = OpState::kStarted;
    rank.ops[0].count = -1;
    rank.ops[0].input_elements = 100;
    rank.ops[0].output_elements = rank.rank == 2 ? 107 : 100;
    rank.memberships[rank.ops[0].membership].completed = rank.ops[0].seq - 1;
  }
  const Answer answer = Ask(bundle);
  EXPECT_EQ(answer.kind, MISMATCH_SPLITS);
  EXPECT_EQ(answer.suspects, std::vector<int32_t>{2});
  EXPECT_EQ(answer.proof.correction(), Proof::SAME_ARGUMENTS) << answer.proof.text();
  // Any member could make the sums equal.
  EXPECT_EQ(answer.proof.why(), Proof::OTHERS_HELP) << answer.proof.text();
}

// Two ranks use two communicators in opposite orders. A change at either of them helps; a change at another rank does
// not.
Bundle Circle() {
  testing::Job job(1, 1, 4, 0);
  job.comms = {JobComm{"a", {0, 1}}, JobComm{"b", {0, 1}}, JobComm{"world", {0, 1, 2, 3}}};
  const auto on = [](int comm) {
    testing::Call call;
    call.comm = comm;
    call.kind = CallKind::kAllReduce;
    call.count = 64;
    call.reduction = 0;
    return call;
  };
  const testing::Call wait;
  job.ranks.assign(4, JobRank());
  job.ranks[0].program = {on(2), on(0), wait, on(1), wait, on(2), wait};
  job.ranks[1].program = {on(2), on(1), wait, on(0), wait, on(2), wait};
  job.ranks[2].program = job.ranks[3].program = {on(2), on(2), wait};
  return job.Run();
}

TEST(JudgeTest, OneRankOfACycleIsEnough) {
  const Answer answer = Ask(Circle());
  EXPECT_EQ(answer.suspects, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(answer.proof.result(), Proof::PROVED) << answer.proof.text();
  EXPECT_EQ(answer.proof.correction(), Proof::OTHER_ORDER);
  EXPECT_TRUE(answer.proof.any_one());
  for (const int32_t one : {0, 1}) {
    const Answer alone = Ask(Circle(), {.suspects = {one}});
    EXPECT_EQ(alone.proof.result(), Proof::NOT_PROVED);
    EXPECT_THAT(alone.proof.rivals(), ::testing::ElementsAre(1 - one)) << alone.proof.text();
  }
}

// Four pairs use two communicators, and rank 1 uses its own two in the opposite order. A change at rank 0 would also
// resolve its cycle, but three other pairs show which order is usual.
TEST(JudgeTest, TheOrderOfOtherPairsDecides) {
  testing::Job job(1, 1, 8, 0);
  job.comms = {JobComm{"world", {0, 1, 2, 3, 4, 5, 6, 7}}};
  job.ranks.assign(8, JobRank());
  for (int pair = 0; pair < 4; ++pair) {
    const std::vector<int32_t> members = {2 * pair, 2 * pair + 1};
    for (const char* name : {"a_", "b_"}) job.comms.push_back(JobComm{absl::StrCat(name, pair), members});
    for (const int32_t rank : members) {
      const int first = rank == 1 ? 2 : 1;
      for (const int comm : {0, 2 * pair + first, 2 * pair + 3 - first, -1, 0, -1}) {
        testing::Call call;
        if (comm >= 0) {
          call.comm = comm;
          call.kind = CallKind::kAllReduce;
          call.count = 64;
          call.reduction = 0;
        }
        job.ranks[rank].program.push_back(call);
      }
    }
  }
  const Bundle bundle = job.Run();
  ExpectProved(bundle, ORDER_INVERSION, {1});
  EXPECT_THAT(Ask(bundle).proof.excluded(), ::testing::ElementsAre(0));
}

// The processes issue the operations in the same order, but one GPU starts the second operation first.
TEST(JudgeTest, GpusThatStartOperationsInDifferentOrders) {
  testing::Job job(1, 1, 4, 0);
  job.comms = {JobComm{"a", {0, 1}}, JobComm{"b", {0, 1}}, JobComm{"world", {0, 1, 2, 3}}};
  const auto on = [](int comm, int stream) {
    testing::Call call;
    call.comm = comm;
    call.kind = CallKind::kAllReduce;
    call.count = 64;
    call.reduction = 0;
    call.stream = stream;
    return call;
  };
  const testing::Call wait;
  job.ranks.assign(4, JobRank());
  job.ranks[0].program = job.ranks[1].program = {on(2, 0), on(0, 1), on(1, 2), wait, on(2, 0), wait};
  job.ranks[0].program[2].after = 1;
  job.ranks[1].program[1].after = 2;
  job.ranks[2].program = job.ranks[3].program = {on(2, 0), on(2, 0), wait};
  const Answer answer = Ask(job.Run());
  EXPECT_EQ(answer.kind, DEADLOCK_CYCLE);
  EXPECT_EQ(answer.suspects, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(answer.proof.result(), Proof::PROVED) << answer.proof.text();
  EXPECT_EQ(answer.proof.correction(), Proof::OTHER_ORDER);
  EXPECT_TRUE(answer.proof.any_one());
  EXPECT_THAT(answer.assumed, ::testing::Contains("a GPU runs its operations one after the other, those that it has "
                                                  "started first"));
}

TEST(JudgeTest, AFindingWithAnInnocentRankIsNotProved) {
  const Answer answer = Ask(WithFault(HostFault::kStall).Run(), {.suspects = {2, 5}});
  EXPECT_EQ(answer.proof.result(), Proof::NOT_PROVED);
  EXPECT_EQ(answer.proof.why(), Proof::NOT_ALL_NEEDED) << answer.proof.text();
  EXPECT_THAT(answer.proof.why_ranks(), ::testing::ElementsAre(2));
}

TEST(JudgeTest, AnOperationThatAllMembersAreInIsNotJudged) {
  testing::Job job(2, 1, 1, 3);
  Bundle bundle = job.Run();
  bundle.known_stalled = true;
  for (Rank& rank : bundle.ranks) {
    ASSERT_FALSE(rank.ops.empty());
    rank.process.life = Life::kRunning;
    Op& last = rank.ops.back();
    last.state = OpState::kStarted;
    rank.memberships[last.membership].completed = last.seq - 1;
  }
  const Answer answer = Ask(bundle);
  EXPECT_EQ(answer.proof.result(), Proof::NOT_JUDGED) << AnswerJson(answer);
}

TEST(JudgeTest, NamingAllRanksProvesNothing) {
  const Answer answer = Ask(WithFault(HostFault::kDie).Run(), {.suspects = {0, 1, 2, 3, 4, 5, 6, 7}});
  EXPECT_EQ(answer.proof.result(), Proof::NOT_PROVED) << answer.proof.text();
}

TEST(JudgeTest, NothingIsProvedBeyondTheLimit) {
  const Bundle bundle = WithFault(HostFault::kStall).Run();
  for (size_t most = 1; most < 1024; most *= 2) {
    const Answer answer = Ask(bundle, {.suspects = {}, .most_parts = most});
    if (answer.proof.result() == Proof::PROVED) continue;
    EXPECT_EQ(answer.proof.why(), Proof::LIMIT_REACHED) << answer.proof.text();
  }
  EXPECT_NE(Ask(bundle, {.suspects = {}, .most_parts = 1}).proof.result(), Proof::PROVED);
}

TEST(JudgeTest, AHealthyJobIsNotJudged) {
  const Answer answer = Ask(testing::Job(2, 2, 2, 3).Run());
  EXPECT_EQ(answer.proof.result(), Proof::NOT_JUDGED);
  EXPECT_EQ(answer.proof.text(), "not judged by replay: the verdict names no rank");
}

// A rank without data may have made every call, and another may be at fault.
TEST(JudgeTest, ARankWithoutDataIsNotJudged) {
  Bundle bundle = WithFault(HostFault::kStall).Run();
  std::erase_if(bundle.ranks, [](const Rank& rank) { return rank.rank == 5; });
  const Answer answer = Ask(bundle);
  EXPECT_EQ(answer.kind, RANK_NO_DATA);
  EXPECT_EQ(answer.proof.text(), "not judged by replay: rank 5 left no calls to replay");
}

// The program of rank 3, without data, is added while another program is read.
TEST(JudgeTest, APeerOfReceivesMayBeWithoutData) {
  testing::Job job(1, 1, 4, 0);
  job.comms = {JobComm{"pp", {0, 1, 2, 3}}};
  job.ranks.assign(4, JobRank());
  for (int r = 0; r < 3; ++r) {
    testing::Call call;
    call.comm = 0;
    call.kind = CallKind::kRecv;
    call.root_or_peer = r + 1;
    call.count = 64;
    job.ranks[r].program = {call, {}};
  }
  Bundle bundle = job.Run();
  std::erase_if(bundle.ranks, [](const Rank& rank) { return rank.rank == 3; });
  const Answer answer = Ask(bundle, {.suspects = {0}});
  EXPECT_EQ(answer.proof.why(), Proof::CALLS_DO_NOT_HANG) << answer.proof.text();
}

TEST(JudgeTest, AssumptionsAboutRanksWithoutDataAreReported) {
  Bundle bundle = WithFault(HostFault::kStall).Run();
  std::erase_if(bundle.ranks, [](const Rank& rank) { return rank.rank == 6; });
  const Answer answer = Ask(bundle, {.suspects = {5}});
  bool said = false;
  for (const std::string& assumed : answer.assumed) said |= absl::StrContains(assumed, "rank 6 left no data");
  EXPECT_TRUE(said) << AnswerJson(answer);
}

TEST(JudgeTest, AnIncidentWithoutCallsIsNotJudged) {
  Bundle bundle = WithFault(HostFault::kDie).Run();
  for (Rank& rank : bundle.ranks) {
    rank.ops.clear();
    rank.addresses.clear();
  }
  const Answer answer = Ask(bundle);
  EXPECT_EQ(answer.proof.result(), Proof::NOT_JUDGED);
  EXPECT_EQ(answer.proof.why(), Proof::NO_CALLS) << AnswerJson(answer);
}

TEST(JudgeTest, ReportsInTextAndJson) {
  Answer answer;
  answer.proof.set_result(Proof::PROVED);
  answer.proof.set_text("proved\x1b[31m");
  answer.proof.set_calls(1234);
  answer.proof.set_ranks(8);
  answer.suspects = {2};
  answer.kind = HOST_STALL;
  answer.assumed = {"one thing", "another"};
  EXPECT_EQ(AnswerReport(answer),
            "proved?[31m\n"
            "  corrected rank 2, which the first finding names: HOST_STALL\n"
            "  replayed  1,234 calls of 8 ranks: all calls in flight, and those that differ\n"
            "  assumed   one thing\n  assumed   another\n");
  EXPECT_TRUE(absl::StrContains(AnswerJson(answer), "\"result\": \"PROVED\"")) << AnswerJson(answer);
  answer.proof.set_result(Proof::NOT_JUDGED);
  EXPECT_FALSE(absl::StrContains(AnswerReport(answer), "corrected")) << AnswerReport(answer);
}

TEST(JudgeTest, AProofChangesNothingElse) {
  const Bundle bundle = WithFault(HostFault::kStall).Run();
  Verdict verdict = AnalyzeAndProve(bundle, {});
  ASSERT_FALSE(verdict.findings().empty());
  EXPECT_EQ(verdict.findings(0).proof().result(), Proof::PROVED);
  verdict.mutable_findings(0)->clear_proof();
  EXPECT_EQ(verdict.SerializeAsString(), Analyze(bundle).SerializeAsString());
}

// Returns the CPU time for judging a communicator that claims to have many members. Only the last two left data: they
// have sends to all others in flight.
double SecondsForExchanges(int32_t members) {
  testing::Job job(1, 1, 2, 0);
  job.comms = {JobComm{"pp", {0, 1}}};
  job.ranks.assign(2, JobRank());
  for (int r = 0; r < 2; ++r) {
    testing::Call call;
    call.comm = 0;
    call.count = 64;
    call.root_or_peer = 1 - r;
    for (const CallKind kind : {CallKind::kRecv, CallKind::kSend}) {
      call.kind = kind;
      job.ranks[r].program.push_back(call);
      job.ranks[r].program.push_back({});
    }
  }
  Bundle bundle = job.Run();
  bundle.known_stalled = true;
  Communicator& comm = bundle.comms[0];
  comm.size = members;
  comm.members.resize(members);
  std::iota(comm.members.begin(), comm.members.end(), 2);
  comm.members[members - 2] = 0;
  comm.members[members - 1] = 1;
  for (Rank& rank : bundle.ranks) {
    rank.memberships[0].member_rank += members - 2;
    EXPECT_EQ(rank.ops.size(), 1u);
    Op op = rank.ops[0];
    op.root_or_peer += members - 2;
    rank.ops[0] = op;
    op.kind = CallKind::kSend;
    for (int32_t peer = 0; peer < members - 2; ++peer) {
      op.root_or_peer = peer;
      ++op.index;
      rank.ops.push_back(op);
    }
  }
  const std::clock_t began = std::clock();
  Ask(bundle, {.suspects = {0, 1}});
  return static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
}

TEST(JudgeTest, ManyExchangesInALargeCommunicatorTakeLinearTime) {
  constexpr int32_t kFew = 3'000, kTimes = 8;
  // The limit is three times linear growth, and a third of what searching all members for each send would take.
  EXPECT_LT(SecondsForExchanges(kFew * kTimes), SecondsForExchanges(kFew) * kTimes * 3);
}

TEST(JudgeTest, ALargeJobIsNotTried) {
  const Answer answer = Ask(WithFault(HostFault::kStall).Run(), {.suspects = {}, .most_ranks = 7});
  EXPECT_EQ(answer.proof.text(), "replay not tried: the job has 8 ranks");
}

TEST(JudgeTest, TheLargestNumbersCauseNoLoop) {
  Bundle bundle = WithFault(HostFault::kStall).Run();
  bundle.known_stalled = true;
  for (Rank& rank : bundle.ranks) {
    for (Op& op : rank.ops) {
      if (IsUnfinished(op.state)) op.seq = INT64_MAX;
    }
    for (Membership& ms : rank.memberships) ms.issued = ms.launched = INT64_MAX;
  }
  EXPECT_NE(Ask(bundle).proof.result(), Proof::PROVED);
  EXPECT_NE(Ask(bundle, {.suspects = {5}}).proof.result(), Proof::PROVED);
}

TEST(JudgeTest, HostileNumbersAreHarmless) {
  // Readers reject larger numbers (analyzer/formats/bounds.h).
  constexpr int64_t kOdd[] = {-3, -1, 0, 1, int64_t{1} << 32, (int64_t{1} << 60) - 1, int64_t{1} << 60};
  std::mt19937 random(1);
  const auto change = [&](int64_t* field) {
    if (random() % 8 == 0) *field = kOdd[random() % std::size(kOdd)];
  };
  const auto began = std::chrono::steady_clock::now();
  for (int round = 0; round < 8; ++round) {
    Bundle bundle = WithFault(round % 2 == 0 ? HostFault::kStall : HostFault::kDie).Run();
    bundle.known_stalled = true;
    for (Rank& rank : bundle.ranks) {
      for (Membership& ms : rank.memberships) {
        for (int64_t* field : {&ms.issued, &ms.launched, &ms.started, &ms.completed}) change(field);
        for (PeerCount& peer : ms.peers) change(&peer.sends), change(&peer.recvs);
      }
      for (Op& op : rank.ops) {
        change(&op.seq), change(&op.count);
        if (random() % 16 == 0) op.root_or_peer = static_cast<int32_t>(kOdd[random() % std::size(kOdd)]);
        if (random() % 16 == 0) op.state = static_cast<OpState>(random() % 9);
      }
    }
    for (const std::vector<int32_t>& suspects : {std::vector<int32_t>{}, {0}, {1, 2, 3}, {-1, INT32_MAX}}) {
      JudgeOptions options;
      options.suspects = suspects;
      options.most_parts = 1'000'000;
      Ask(bundle, options);
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(120));
}

}  // namespace
}  // namespace lockstep::replay
