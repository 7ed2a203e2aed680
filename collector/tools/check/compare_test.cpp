#include "collector/tools/check/compare.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/testing/job.h"

namespace lockstep::check {
namespace {

using ring::CallKind;
using testing::Call;
using testing::Job;
using Ranks = std::vector<int32_t>;

Found Look(const Bundle& bundle, HowEnded how = HowEnded::kWell) {
  Found found;
  AnalyzeAndLook(bundle, {}, [&](const AnalysisView& view) { found = FindFaults(view, how); });
  return found;
}

// Returns the records of a job that ended normally only because its sends fit into buffers and its streams ran
// concurrently.
Bundle Survived(Job* job) {
  Bundle bundle = job->Run();
  for (Rank& rank : bundle.ranks) {
    for (Op& op : rank.ops) op.state = OpState::kCompleted;
    for (Membership& ms : rank.memberships) ms.launched = ms.completed = ms.issued;
    for (ring::ThreadSnapshot& thread : rank.threads) thread.wait = CallKind::kNone;
  }
  return bundle;
}

// Four pipelines of two ranks. `change` is applied to the last step of rank 2, at its first send or receive.
Found LookAtOne(const std::function<void(std::vector<Call>*, size_t call)>& change) {
  Job job(1, 2, 4, 4);
  change(&job.ranks[2].program, job.Find(2, "pp", 3));
  return Look(Survived(&job));
}

void ExpectOne(const Found& found, const std::string& kind, const Ranks& ranks) {
  ASSERT_EQ(found.faults.size(), 1u) << kind << (found.faults.empty() ? "" : ": " + found.faults[0].text);
  EXPECT_EQ(found.faults[0].kind, kind) << found.faults[0].text;
  EXPECT_EQ(found.faults[0].ranks, ranks) << found.faults[0].text;
  EXPECT_FALSE(found.faults[0].calls.empty());
}

TEST(Check, AHealthyJobHasNoFault) {
  const Found found = Look(Job(2, 2, 2, 4).Run());
  EXPECT_TRUE(found.faults.empty()) << found.faults[0].text;
  EXPECT_TRUE(found.not_checked.empty());
  EXPECT_EQ(found.ranks, 8u);
  EXPECT_GT(found.calls, 100u);
}

TEST(Check, CallsThatARankSkipsAddsChangesOrSwaps) {
  ExpectOne(LookAtOne([](std::vector<Call>* program, size_t call) {
              program->erase(program->begin() + static_cast<ptrdiff_t>(call));
            }),
            "SKIPPED_CALL", {2});
  ExpectOne(LookAtOne([](std::vector<Call>* program, size_t call) {
              const Call again = (*program)[call];
              program->insert(program->begin() + static_cast<ptrdiff_t>(call), again);
            }),
            "ADDED_CALL", {2});
  // With three stages, a call uses the next stage instead of the previous one.
  Job stages(1, 3, 4, 4);
  stages.ranks[6].program[stages.Find(6, "pp", 3)].root_or_peer = 2;
  ExpectOne(Look(Survived(&stages)), "CHANGED_CALL", {6});
  // Two calls on different communicators are swapped, for example for the gradient norm and the loss.
  Job job(2, 1, 4, 4);
  const size_t call = job.Find(4, "dp", 2);
  std::swap(job.ranks[4].program[call - 1], job.ranks[4].program[call]);
  ExpectOne(Look(Survived(&job)), "SWAPPED_CALLS", {4});
}

TEST(Check, ACallThatNcclRefuses) {
  Bundle bundle = Job(2, 1, 4, 4).Run();
  bundle.ranks[3].ops[5].result = 4;
  ExpectOne(Look(bundle), "FAILED_CALL", {3});
  bundle.ranks[3].ops[5].result = 7;  // ncclInProgress
  EXPECT_TRUE(Look(bundle).faults.empty());
}

TEST(Check, ASendThatNobodyReceives) {
  Bundle bundle = Job(2, 1, 4, 4).Run();
  Op send = bundle.ranks[0].ops.back();
  send.kind = CallKind::kSend;
  send.reduction = ring::kNoReduction;
  send.root_or_peer = 1;
  send.seq = 1;
  bundle.ranks[0].ops.push_back(send);
  ExpectOne(Look(bundle), "UNMATCHED_CALL", {0, 1});
  EXPECT_TRUE(Look(bundle, HowEnded::kInterrupted).faults.empty()) << "its receive may still have come";
  bundle.ranks[5].records_lost = 1;
  const Found lost = Look(bundle);
  EXPECT_TRUE(lost.faults.empty());
  EXPECT_EQ(lost.not_checked.size(), 1u);
}

TEST(Check, ARankWithoutRecordsInAJobThatFailed) {
  Bundle bundle = Job(2, 1, 4, 4).Run();
  bundle.ranks.erase(bundle.ranks.begin() + 3);
  const Found found = Look(bundle, HowEnded::kFailed);
  ASSERT_FALSE(found.faults.empty());
  EXPECT_EQ(found.faults[0].ranks, (Ranks{3}));
}

// Gives all ranks the last looks that show them at work.
void Work(Bundle* bundle) {
  for (Rank& rank : bundle->ranks) rank.process.sample_gap_ns = rank.process.cpu_ns_between_samples = 2'000'000'000;
}

TEST(Check, RanksThatMoveAtTheTimeLimitAreNotAtFault) {
  Job job(2, 1, 4, 4);
  job.ranks[3].host_fault = testing::HostFault::kStall;
  job.ranks[3].host_fault_at = job.Find(3, "tp", 3);
  Bundle bundle = job.Run();
  const Found stopped = Look(bundle, HowEnded::kCut);
  ASSERT_FALSE(stopped.faults.empty());
  EXPECT_EQ(stopped.faults[0].ranks, Ranks{3});
  EXPECT_TRUE(stopped.unfinished.empty());
  Work(&bundle);
  const Found moving = Look(bundle, HowEnded::kCut);
  EXPECT_TRUE(moving.faults.empty()) << moving.faults[0].text;
  ASSERT_FALSE(moving.unfinished.empty());
  EXPECT_EQ(moving.unfinished[0].kind, "UNFINISHED_CALL");
  EXPECT_EQ(moving.unfinished[0].ranks, Ranks{2});
  EXPECT_EQ(moving.unfinished[0].text, "rank 2 waits for rank 3");
  EXPECT_EQ(moving.unfinished.back().kind, "NOT_FINISHED");
}

TEST(Check, CallsThatDifferAreFaultsEvenIfRanksMove) {
  Job job(2, 1, 4, 4);
  job.ranks[3].program[job.Find(3, "tp", 3)].count += 1;
  Bundle bundle = job.Run();
  Work(&bundle);
  const Found found = Look(bundle, HowEnded::kCut);
  ASSERT_FALSE(found.faults.empty());
  EXPECT_EQ(found.faults[0].kind, "MISMATCH_COUNT");
}

// Returns the cycles of two ranks that make only these calls.
std::vector<Fault> Cycles(std::vector<Call> first, std::vector<Call> second) {
  Job job(2, 1, 1, 1);
  job.ranks[0].program = std::move(first);
  job.ranks[1].program = std::move(second);
  const Bundle bundle = job.Run();
  return FindCycles(Model(bundle, {}));
}

TEST(Check, SendsThatNeedBuffersAreACycle) {
  const auto call = [](CallKind kind, int peer, int stream, int group) {
    return Call{.comm = 0, .kind = kind, .count = 4, .root_or_peer = peer, .stream = stream, .group = group};
  };
  const auto program = [&](int peer, int recv_stream, int group) {
    return std::vector<Call>{call(CallKind::kSend, peer, 0, group), call(CallKind::kRecv, peer, recv_stream, group)};
  };
  const std::vector<Fault> cycles = Cycles(program(1, 0, 0), program(0, 0, 0));
  ASSERT_EQ(cycles.size(), 1u);
  EXPECT_EQ(cycles[0].kind, "POSSIBLE_CYCLE");
  EXPECT_EQ(cycles[0].ranks, (Ranks{0, 1}));
  EXPECT_EQ(cycles[0].calls.size(), 2u);
  EXPECT_TRUE(Cycles(program(1, 0, 1), program(0, 0, 1)).empty()) << "in a group, both run together";
  EXPECT_TRUE(Cycles(program(1, 1, 0), program(0, 1, 0)).empty()) << "on two streams, too";
  std::vector<Call> receives_first = program(0, 0, 0);
  std::swap(receives_first[0], receives_first[1]);
  EXPECT_TRUE(Cycles(program(1, 0, 0), receives_first).empty());
}

// NCCL requires the same order of communicators on all ranks, regardless of streams.
TEST(Check, OrdersOfCommunicatorsThatDoNotFitTogetherAreACycle) {
  const auto call = [](int comm, int group) {
    return Call{.comm = comm, .kind = CallKind::kAllReduce, .count = 4, .reduction = 0, .stream = comm, .group = group};
  };
  const std::vector<Fault> cycles = Cycles({call(0, 0), call(1, 0)}, {call(1, 0), call(0, 0)});
  ASSERT_EQ(cycles.size(), 1u);
  EXPECT_EQ(cycles[0].kind, "POSSIBLE_CYCLE");
  EXPECT_EQ(cycles[0].ranks, (Ranks{0, 1}));
  EXPECT_TRUE(Cycles({call(0, 1), call(1, 1)}, {call(1, 1), call(0, 1)}).empty()) << "in a group, both start together";
}

}  // namespace
}  // namespace lockstep::check
