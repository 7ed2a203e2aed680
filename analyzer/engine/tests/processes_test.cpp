// Tests jobs without recorded calls whose processes were observed from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/engine/facts/process_place.h"
#include "analyzer/testing/findings.h"
#include "proto/process.pb.h"

namespace lockstep {
namespace {

using lockstep::testing::Culprits;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kInAllReduce = {"__futex_abstimed_wait_common (futex-internal.c:57)", "c10d::Work::wait",
                                               "all_reduce (torch/distributed/distributed_c10d.py:3190)",
                                               "step (train.py:40)", "<module> (train.py:90)"};
const std::vector<std::string> kInSynchronize = {"libcuda.so.1 at 0x2f10", "cudaStreamSynchronize",
                                                 "item (train.py:44)", "<module> (train.py:90)"};
const std::vector<std::string> kInLoader = {"clock_nanosleep (clock_nanosleep.c:48)", "load (data.py:12)",
                                            "step (train.py:31)", "<module> (train.py:90)"};

Process At(const std::vector<std::string>& stack) {
  Process process;
  process.life = Life::kRunning;
  process.state = "S";
  process.stack = process.stack_later = stack;
  process.sample_gap_ns = 2'000'000'000;
  process.cpu_ns_between_samples = process.io_bytes_between_samples = 0;
  process.evidence = std::make_shared<ProcessEvidence>();
  return process;
}

// A job whose ranks all wait, in one of two ways.
Bundle Waiting(int ranks) {
  Bundle bundle;
  for (int i = 0; i < ranks; ++i) {
    Rank rank;
    rank.rank = i;
    rank.world_size = ranks;
    rank.host = "node1";
    rank.pid = 100 + i;
    rank.source = Source::kFlightRecorder;
    rank.process = At(i % 2 == 0 ? kInAllReduce : kInSynchronize);
    bundle.ranks.push_back(std::move(rank));
  }
  bundle.ranks_expected = ranks;
  return bundle;
}

TEST(Processes, TheOnlyRankThatDoesNotWaitIsNamed) {
  Bundle bundle = Waiting(8);
  bundle.ranks[3].process = At(kInLoader);
  const Verdict verdict = Analyze(bundle, {});
  ASSERT_EQ(verdict.findings_size(), 1);
  EXPECT_EQ(verdict.verdict(), VERDICT_HUNG);
  EXPECT_EQ(verdict.findings(0).kind(), HOST_STALL);
  EXPECT_THAT(Culprits(verdict.findings(0)), ElementsAre(3));
  EXPECT_LE(verdict.findings(0).confidence(), 0.8);
  EXPECT_THAT(verdict.findings(0).summary(), HasSubstr("load() at data.py:12"));
  EXPECT_EQ(verdict.findings(0).victim_count(), 7);
}

TEST(Processes, AnExceptionOfAProcessThatRunsOnIsEvidence) {
  Bundle bundle = Waiting(4);
  bundle.ranks[1].process = At(kInLoader);
  bundle.ranks[1].process.exception = "ValueError: x";
  const Verdict verdict = Analyze(bundle, {});
  ASSERT_EQ(verdict.findings_size(), 1);
  std::string evidence;
  for (const Evidence& item : verdict.findings(0).evidence()) evidence += item.text() + "\n";
  EXPECT_THAT(evidence, HasSubstr("rank 1's output contains an uncaught exception, though its process has not ended: "
                                  "ValueError: x"));
}

// A few seconds do not show whether the rank will continue. A stopped process will not.
TEST(Processes, ARankThatWasWatchedForSecondsIsAHypothesis) {
  Bundle bundle = Waiting(8);
  bundle.ranks[3].process = At(kInLoader);
  for (Rank& rank : bundle.ranks) rank.captured_ns = 1'800'000'000'000'000'000;
  const Finding finding = Analyze(bundle, {}).findings(0);
  EXPECT_TRUE(finding.hypothesis());
  EXPECT_LE(finding.confidence(), 0.6);
  EXPECT_THAT(finding.alternatives(0), HasSubstr("its processes were watched for only 2.0 s"));
  bundle.ranks[3].process.state = "T";
  EXPECT_FALSE(Analyze(bundle, {}).findings(0).hypothesis());
}

// A job with these Python stacks, as py-spy prints them, without native frames.
Bundle Printed(const std::vector<std::vector<std::string>>& stacks) {
  Bundle bundle = Waiting(static_cast<int>(stacks.size()));
  for (size_t i = 0; i < stacks.size(); ++i) {
    bundle.ranks[i].process = Process();
    bundle.ranks[i].process.python_stack = stacks[i];
  }
  return bundle;
}

const std::vector<std::string> kPrintedReduce = {"all_reduce (torch/distributed/distributed_c10d.py:3190)",
                                                 "step (train.py:40)", "<module> (train.py:90)"};

TEST(Processes, NobodyWaitsForTheOnlyRankThatWaits) {
  const std::vector<std::string> asleep = {"<module> (train.py:95)"},
                                 backward = {"_engine_run_backward (torch/autograd/graph.py:1113)",
                                             "step (train.py:41)", "<module> (train.py:90)"};
  for (const std::vector<std::string>& waits : {kPrintedReduce, backward})
    EXPECT_EQ(Analyze(Printed({asleep, waits, asleep, asleep}), {}).findings_size(), 0);
  const Verdict verdict = Analyze(Printed({backward, kPrintedReduce, backward, backward}), {});
  ASSERT_EQ(verdict.findings_size(), 1);
  EXPECT_THAT(Culprits(verdict.findings(0)), ElementsAre(1));
  EXPECT_THAT(verdict.findings(0).summary(),
              HasSubstr("in all_reduce, called from step() at train.py:40, where no other rank is"));
  for (const std::string& blind : verdict.blind()) EXPECT_THAT(blind, ::testing::Not(HasSubstr("no stack was taken")));
}

// Rank 0 serves the store, so it is in another part of the call.
TEST(Processes, PartsOfOneLibraryCallNameNobody) {
  const std::vector<std::string> call = {"init_process_group (torch/distributed/distributed_c10d.py:2714)",
                                         "<module> (train.py:3)"};
  std::vector<std::string> server = call, client = call;
  server.insert(server.begin(), "_create_c10d_store (torch/distributed/rendezvous.py:215)");
  client.insert(client.begin(), "_create_gloo_process_group (torch/distributed/distributed_c10d.py:757)");
  EXPECT_EQ(Analyze(Printed({server, client, client}), {}).findings_size(), 0);
}

// All ranks are in one call of the program (a backward pass), but one is in another collective inside it.
TEST(Processes, AnotherCollectiveInsideOneLibraryCallIsNamed) {
  const std::vector<std::string> call = {"backward (torch/_tensor.py:630)", "<module> (train.py:28)"};
  std::vector<std::string> gather = call, scatter = call;
  gather.insert(gather.begin(), "all_gather_single (torch/distributed/distributed_c10d.py:4010)");
  scatter.insert(scatter.begin(), "reduce_scatter_single (torch/distributed/distributed_c10d.py:4390)");
  const Verdict verdict = Analyze(Printed({gather, scatter, gather, gather}), {});
  ASSERT_EQ(verdict.findings_size(), 1);
  EXPECT_THAT(Culprits(verdict.findings(0)), ElementsAre(1));
  // If two halves are at different places, each place is shown with its ranks.
  const Verdict halves = Analyze(Printed({gather, scatter, gather, scatter}), {});
  ASSERT_EQ(halves.findings_size(), 1);
  std::string evidence;
  for (const Evidence& item : halves.findings(0).evidence()) evidence += item.text() + "\n";
  EXPECT_THAT(evidence, HasSubstr("ranks 0, 2 are in all_gather_single"));
}

// Only rank 0 has a dump. The stacks of the others show that they wait, but not in which call.
TEST(Processes, ARankWithoutADumpMayHaveMadeTheCall) {
  Bundle bundle = Waiting(4);
  for (Rank& rank : bundle.ranks) rank.process = At(kInAllReduce);
  bundle.ranks[0].process = At(kInLoader);
  Communicator comm;
  comm.id = "0/1";
  comm.name = "default_pg";
  comm.size = 4;
  comm.members = {0, 1, 2, 3};
  bundle.comms.push_back(comm);
  bundle.ranks[0].ends_untold = true;
  Membership& membership = bundle.ranks[0].memberships.emplace_back();
  membership.comm = 0;
  membership.member_rank = 0;
  membership.issued = 1;
  Op op;
  op.membership = 0;
  op.kind = ring::CallKind::kAllReduce;
  op.seq = 1;
  op.retired = true;
  op.state = OpState::kCompleted;
  bundle.ranks[0].ops.push_back(op);
  const Verdict verdict = Analyze(bundle, {});
  for (const Finding& finding : verdict.findings())
    EXPECT_THAT(finding.summary(), ::testing::Not(HasSubstr("never called")));
}

TEST(Processes, AStoppedRankAndARankThatEndedAreBothNamed) {
  Bundle bundle = Waiting(4);
  bundle.ranks[1].process.state = "T";
  Verdict verdict = Analyze(bundle, {});
  ASSERT_EQ(verdict.findings_size(), 1);
  EXPECT_THAT(Culprits(verdict.findings(0)), ElementsAre(1));
  EXPECT_THAT(verdict.findings(0).summary(), HasSubstr("stopped (state T)"));

  bundle = Waiting(4);
  bundle.ranks[2].process = Process();
  bundle.ranks[2].process.life = Life::kGone;
  verdict = Analyze(bundle, {});
  ASSERT_EQ(verdict.findings_size(), 1);
  EXPECT_EQ(verdict.findings(0).kind(), RANK_DEAD);
  EXPECT_THAT(Culprits(verdict.findings(0)), ElementsAre(2));
  EXPECT_THAT(verdict.findings(0).summary(), HasSubstr("is gone"));
  bundle.ranks[2].pid = 0;
  EXPECT_THAT(Analyze(bundle, {}).findings(0).summary(), HasSubstr("it ended, or was never started"));
}

// A watchdog may end a rank that waits; a debugger may stop a rank to examine it.
TEST(Processes, AnEndBesideAnotherSuspectIsUncertain) {
  Bundle bundle = Waiting(8);
  bundle.ranks[2].process = Process();
  bundle.ranks[2].process.life = Life::kKilled;
  bundle.ranks[2].process.signal = 6;
  EXPECT_LE(Analyze(bundle, {}).findings(0).confidence(), 0.8);
  bundle.ranks[5].process = At(kInLoader);
  EXPECT_LE(Analyze(bundle, {}).findings(0).confidence(), 0.6);
  bundle = Waiting(8);
  bundle.ranks[1].process.state = "t";
  EXPECT_LE(Analyze(bundle, {}).findings(0).confidence(), 0.6);
}

TEST(Processes, EqualRanksAreNotDistinguished) {
  const Verdict verdict = Analyze(Waiting(8), {});
  EXPECT_EQ(verdict.findings_size(), 0);
  EXPECT_EQ(verdict.verdict(), VERDICT_INCOMPLETE_DATA);
}

TEST(Processes, AMovingJobHasNoCulprit) {
  Bundle bundle = Waiting(4);
  bundle.ranks[1].process = At(kInLoader);
  bundle.ranks[2].process.stack_later = kInSynchronize;  // the rank's wait has ended
  EXPECT_EQ(Analyze(bundle, {}).findings_size(), 0);

  bundle = Waiting(4);
  for (Rank& rank : bundle.ranks) rank.process.cpu_ns_between_samples = 600'000'000;
  bundle.ranks[1].process.stack = bundle.ranks[1].process.stack_later = kInLoader;
  const Verdict verdict = Analyze(bundle, {});
  EXPECT_EQ(verdict.findings_size(), 0);
  EXPECT_THAT(verdict.blind(0) + verdict.blind(1), HasSubstr("whether the job hangs"));
}

TEST(Processes, ARankThatComputesIsLate) {
  Bundle bundle = Waiting(4);
  bundle.ranks[1].process = At(kInLoader);
  bundle.ranks[1].process.cpu_ns_between_samples = 1'990'000'000;
  const Verdict verdict = Analyze(bundle, {});
  ASSERT_EQ(verdict.findings_size(), 1);
  EXPECT_EQ(verdict.verdict(), VERDICT_LATE);
  EXPECT_LE(verdict.findings(0).confidence(), 0.5);
}

TEST(Processes, UnobservedRanksMakeTheFindingUncertain) {
  Bundle bundle = Waiting(4);
  bundle.ranks[3].process = At(kInLoader);
  bundle.ranks_expected = 16;
  const Verdict verdict = Analyze(bundle, {});
  ASSERT_EQ(verdict.findings_size(), 1);
  EXPECT_LE(verdict.findings(0).confidence(), 0.6);
}

// Nothing shows which rank the others wait for, so this is only the first place to look.
TEST(Processes, ARankWithoutAStackIsAHypothesisIfAllOthersWait) {
  Bundle bundle = Waiting(8);
  bundle.ranks.erase(bundle.ranks.begin() + 3);
  const Verdict verdict = Analyze(bundle, {});
  ASSERT_EQ(verdict.findings_size(), 1) << verdict.DebugString();
  EXPECT_THAT(Culprits(verdict.findings(0)), ElementsAre(3));
  EXPECT_EQ(verdict.findings(0).reason(), REASON_NO_DATA_ALL_OTHERS_WAIT);
  EXPECT_TRUE(verdict.findings(0).hypothesis());
  EXPECT_LE(verdict.findings(0).confidence(), 0.5);
  EXPECT_THAT(verdict.findings(0).summary(), HasSubstr("the 7 other ranks wait"));
  // If half of the job has no stacks, nothing follows.
  bundle.ranks.erase(bundle.ranks.begin() + 4, bundle.ranks.end());
  EXPECT_EQ(Analyze(bundle, {}).findings_size(), 0);
}

TEST(Processes, ManyRanksInOtherPlacesAreNotNamed) {
  Bundle bundle = Waiting(8);
  for (int rank = 0; rank < 3; ++rank) bundle.ranks[static_cast<size_t>(rank)].process = At(kInLoader);
  EXPECT_EQ(Analyze(bundle, {}).findings_size(), 0);
  // A user stopped the whole job.
  bundle = Waiting(4);
  for (Rank& rank : bundle.ranks) rank.process.state = "T";
  EXPECT_EQ(Analyze(bundle, {}).findings_size(), 0);
}

TEST(Processes, RefusedStacksAreReported) {
  Bundle bundle = Waiting(4);
  for (Rank& rank : bundle.ranks) {
    rank.process.stack = rank.process.stack_later = {"in system call 202"};
    rank.process.stack_refused = "ptrace refused: run as root";
  }
  Verdict verdict = Analyze(bundle, {});
  EXPECT_EQ(verdict.findings_size(), 0);
  EXPECT_THAT(std::vector<std::string>(verdict.blind().begin(), verdict.blind().end()),
              ::testing::Contains("not known where ranks 0-3 are: ptrace refused: run as root"));
  // A stopped process needs no stack.
  bundle.ranks[1].process.state = "T";
  for (const int rank : {0, 3}) bundle.ranks[static_cast<size_t>(rank)].process = At(kInAllReduce);
  verdict = Analyze(bundle, {});
  ASSERT_EQ(verdict.findings_size(), 1);
  EXPECT_THAT(Culprits(verdict.findings(0)), ElementsAre(1));
  EXPECT_LE(verdict.findings(0).confidence(), 0.6);
}

// A single process cannot be compared, and its stack alone does not show that the job is healthy.
TEST(Processes, ASingleProcessIsNotCalledHealthy) {
  EXPECT_EQ(Analyze(Waiting(1), {}).verdict(), VERDICT_INCOMPLETE_DATA);
}

TEST(Processes, WaitsAreRecognizedByTheirFrames) {
  for (const char* frame :
       {"ncclCommInitRankConfig", "MPI_Allreduce", "cuStreamSynchronize", "libcuda.so.1 at 0x10",
        "barrier (torch/distributed/distributed_c10d.py:4800)", "gloo::transport::tcp::Pair::recv",
        "c10d::TCPStore::wait", "hipDeviceSynchronize", "synchronize (/opt/venv/torch/cuda/__init__.py:1040)"})
    EXPECT_TRUE(IsPeerWait(frame)) << frame;
  for (const char* frame : {"nccl_setup (train.py:7)", "poll (poll.c:29)", "[kernel] futex_wait", "", "main",
                            "fetch (torch/utils/data/dataloader.py:9)", "libc.so.6 at 0x10",
                            "_lazy_init (/opt/venv/torch/cuda/__init__.py:300)"})
    EXPECT_FALSE(IsPeerWait(frame)) << frame;
}

}  // namespace
}  // namespace lockstep
