// Whole logs: the ranks found in them, and the analysis of these.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/engine.h"
#include "analyzer/load/load.h"
#include "analyzer/testing/findings.h"
#include "analyzer/testing/fr_dumps.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::lockstep::testing::ExpectOnly;
using ::lockstep::testing::Show;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LogsTest : public ::testing::Test {
 protected:
  void Put(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = std::filesystem::path(folder_.path()) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  Bundle Load() const {
    absl::StatusOr<Bundle> bundle = LoadPaths({folder_.path()});
    EXPECT_TRUE(bundle.ok()) << bundle.status();
    return bundle.ok() ? *std::move(bundle) : Bundle();
  }
  Verdict Told() const { return Analyze(Load()); }

  const support::TempFolder folder_;
};

// "[Rank 3] Watchdog caught ..", without its prefix.
std::string Caught(int inside, int seq, const std::string& op = "ALLREDUCE", int elements = 64) {
  return absl::StrCat("[E1120 10:00:01.5 ProcessGroupNCCL.cpp:632] [Rank ", inside,
                      "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=", seq, ", OpType=", op,
                      ", NumelIn=", elements, ", NumelOut=", elements,
                      ", Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n");
}
std::string Counters(const std::string& group, int inside, int enqueued, int completed) {
  return absl::StrCat("[E1120 10:00:01.6 ProcessGroupNCCL.cpp:2271] [PG ID 0 PG GUID ", group, " Rank ", inside,
                      "]  failure detected by watchdog at work sequence id: ", completed + 1,
                      " PG status: last enqueued work: ", enqueued, ", last completed work: ", completed, "\n");
}
std::string Of(int rank) {
  return absl::StrCat("[rank", rank, "]:");
}
std::string TimedOut(int rank, int seq, const std::string& op = "ALLREDUCE", int elements = 64) {
  return Of(rank) + Caught(rank, seq, op, elements) + Of(rank) + Counters("0(default_pg)", rank, seq, seq - 1);
}

// torchrun's report: rank 0 failed later.
std::string Torchrun(int rank, int code, const std::string& time) {
  const std::string line(60, '-'), end(60, '=');
  const auto worker = [](int number, int exit_code, const std::string& at) {
    return absl::StrCat("[0]:\n  time      : 2026-11-20_10:00:", at, "\n  host      : node", number,
                        "\n  rank      : ", number, " (local_rank: 0)\n  exitcode  : ", exit_code,
                        " (pid: ", 100 + number, ")\n  error_file: <N/A>\n");
  };
  return absl::StrCat("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n", end,
                      "\ntrain.py FAILED\n", line, "\nFailures:\n", worker(0, -15, "58"), line,
                      "\nRoot Cause (first observed failure):\n", worker(rank, code, time), end, "\n");
}

TEST_F(LogsTest, TheFirstFailureThatTorchrunReportsIsTheCause) {
  Put("log", TimedOut(0, 5) + TimedOut(2, 5) + Torchrun(3, -15, "37") + Torchrun(1, -6, "33"));
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_DEAD, {1});
  EXPECT_THAT(Show(verdict), HasSubstr("SIGABRT"));
}

// Ranks 0 and 2 left dumps.
TEST_F(LogsTest, AnEndWithoutADumpIsReadBesideTheDumpsOfOthers) {
  fr_test::FrDump dump;
  dump.groups[0].ranks = {0, 1, 2};
  dump.groups[0].enqueued = 2;
  dump.groups[0].completed = 1;
  dump.entries = {{.seq = 1, .state = "completed", .retired = true}, {.seq = 2}};
  for (const int rank : {0, 2}) Put(absl::StrCat("nccl_trace_rank_", rank), fr_test::ToPickle(dump));
  Put("log", Torchrun(0, 1, "37") + Torchrun(1, -11, "33"));
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_DEAD, {1});
  EXPECT_THAT(Show(verdict), HasSubstr("SIGSEGV"));
}

// A watchdog ends a rank that waits for another.
TEST_F(LogsTest, ARankWithATimeoutIsNoneThatFailedFirst) {
  Put("log", TimedOut(0, 5) + TimedOut(2, 5) + "world_size=3\n" + Torchrun(0, -6, "33"));
  ExpectOnly(Told(), RANK_NO_DATA, {1});
}

TEST_F(LogsTest, TheRankWithoutATimeoutIsTheMissingOne) {
  std::string log = "starting, world_size=6\n";
  for (int rank : {0, 1, 2, 3, 4}) log += TimedOut(rank, 31);
  Put("train.txt", log);
  ExpectOnly(Told(), RANK_NO_DATA, {5});
}

TEST_F(LogsTest, CountersOfTheRankThatDidNotCome) {
  std::string log;
  for (int rank : {0, 1, 3}) log += TimedOut(rank, 31);
  log +=
      Of(2) +
      "[E x] [PG ID 0 PG GUID 0(default_pg) Rank 2] Received a dump signal due to a collective timeout from  rank 0 "
      "and we will try our best to dump the debug info. Last enqueued NCCL work: 30, last completed NCCL work: 30.\n";
  Put("train.log", log);
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {2});
}

TEST_F(LogsTest, CallsThatDiffer) {
  std::string log;
  for (int rank = 0; rank < 4; ++rank) log += TimedOut(rank, 12, rank == 1 ? "BROADCAST" : "ALLREDUCE");
  Put("train.log", log);
  ExpectOnly(Told(), MISMATCH_KIND, {1});
}

TEST_F(LogsTest, TimesAndCallSitesOfTheFailedCall) {
  std::string log;
  for (int rank = 0; rank < 4; ++rank) {
    log += TimedOut(rank, 12, rank == 1 ? "BROADCAST" : "ALLREDUCE") + Of(rank) +
           "[E1120 10:00:01.7 ProcessGroupNCCL.cpp:733] Stack trace of the failed collective: \n"
           "#0 all_reduce from /env/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py:2501\n" +
           absl::StrCat("#1 step from /app/train.py:", rank == 1 ? 95 : 88, "\n#2 main from /app/train.py:120\n");
  }
  Put("train.log", log);
  const Verdict verdict = Told();
  ExpectOnly(verdict, MISMATCH_KIND, {1});
  const Finding& finding = verdict.findings(0);
  ASSERT_EQ(finding.call_sites_size(), 2);
  EXPECT_EQ(finding.call_sites(0).place(), "train.py:88 step");
  EXPECT_EQ(finding.call_sites(1).place(), "train.py:95 step");
  EXPECT_GE(finding.duration_ns(), 600'000'000'000);
  EXPECT_LE(finding.duration_ns(), 601'000'000'000);
}

TEST_F(LogsTest, AFileForEachRank) {
  for (int rank = 0; rank < 4; ++rank) {
    Put(absl::StrCat("attempt_0/", rank, "/stderr.log"),
        rank == 3 ? "step 30 done\n" : Caught(rank, 31) + Counters("0(default_pg)", rank, 31, 30));
  }
  ExpectOnly(Told(), RANK_NO_DATA, {3});
}

// Older PyTorch identifies rank and group only by "[Rank 3]"; srun and mpirun label its output.
TEST_F(LogsTest, LinesOfOlderReleasesUnderALauncher) {
  for (const char* label : {"%: ", "[1,%]<stderr>:"}) {
    std::string log;
    for (int rank = 0; rank < 4; ++rank) {
      std::string before = label;
      before.replace(before.find('%'), 1, std::to_string(rank));
      log += before + (rank == 3 ? "step 6\n" : Caught(rank, 7));
    }
    Put("slurm-8812.out", log);
    ExpectOnly(Told(), RANK_NO_DATA, {3});
  }
}

// "[Rank 0]" of two tasks is a rank inside of two groups.
TEST_F(LogsTest, RanksInsideOfGroupsAreNotRanksOfTheJob) {
  Put("slurm.out", "0: " + Caught(0, 7) + "1: " + Caught(1, 7) + "2: " + Caught(0, 9) + "3: " + Caught(1, 9));
  EXPECT_THAT(std::string(LoadPaths({folder_.path()}).status().message()),
              HasSubstr("line 1 does not say its process group"));
}

TEST_F(LogsTest, GroupsHaveTheirOwnMembersAndCounters) {
  std::string log = "world_size=4\n";
  for (int rank : {0, 1}) log += TimedOut(rank, 9, "ALLREDUCE");
  log += Of(3) + Caught(1, 5) + Of(3) + Counters("7(tp)", 1, 5, 4);
  log += Of(0) + Counters("6(tp)", 0, 5, 5) + Of(1) + Counters("6(tp)", 1, 5, 5);
  Put("train.log", log);
  const Bundle bundle = Load();
  std::vector<int32_t> second;
  for (const Communicator& comm : bundle.comms) {
    if (comm.id.starts_with("7/")) second = comm.members;
  }
  EXPECT_THAT(second, ElementsAre(2, 3));
  const Verdict verdict = Analyze(bundle);
  ASSERT_GE(verdict.findings_size(), 1) << Show(verdict);
  EXPECT_EQ(lockstep::testing::Culprits(verdict.findings(0)), std::vector<int32_t>{2}) << Show(verdict);
}

// Where no line says how large the job is, a further rank may be the one that is missing.
TEST_F(LogsTest, ASizeThatNobodySaysIsNotAssumed) {
  std::string log;
  for (int rank : {0, 1, 2}) log += TimedOut(rank, 31);
  Put("train.log", log);
  const Verdict open = Told();
  EXPECT_EQ(open.findings_size(), 0) << Show(open);
  EXPECT_EQ(open.verdict(), VERDICT_INCOMPLETE_DATA);
  Put("train.log", "data_parallel_world_size=2\n" + log);
  EXPECT_EQ(Told().findings_size(), 0);
  Put("train.log", "WORLD_SIZE=3\n" + log);
  ExpectOnly(Told(), COLLECTIVE_STUCK, {0, 1, 2});
}

TEST_F(LogsTest, TheLogOfOneRankAloneNamesNobody) {
  Put("train.log", TimedOut(2, 31));
  const Verdict verdict = Told();
  EXPECT_EQ(verdict.findings_size(), 0) << Show(verdict);
  EXPECT_EQ(verdict.verdict(), VERDICT_INCOMPLETE_DATA);
  EXPECT_EQ(verdict.ranks_expected(), 3);
  Put("train.log", "WORLD_SIZE=4\n" + TimedOut(2, 31));
  ExpectOnly(Told(), RANK_NO_DATA, {0, 1, 3});
}

TEST_F(LogsTest, OneRankThatIsDoneSaysWhoTimedOut) {
  Put("server.txt", Of(0) +
                        "[E x] [PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump signal due to a collective "
                        "timeout from rank 1 and we will. Last enqueued NCCL work: 8, last completed NCCL work: 8.\n");
  const Bundle bundle = Load();
  ASSERT_EQ(bundle.problems.size(), 2u);
  EXPECT_THAT(bundle.problems[0].text + bundle.problems[1].text, HasSubstr("rank 1's watchdog found a timeout"));
  const Verdict verdict = Analyze(bundle);
  EXPECT_EQ(verdict.verdict(), VERDICT_INCOMPLETE_DATA);
  EXPECT_EQ(verdict.findings_size(), 0) << Show(verdict);
}

TEST_F(LogsTest, FingerprintsOfTwoRanksTellOfThoseBetween) {
  const auto line = [](int own, const char* own_op, int other, const char* other_op) {
    return absl::StrCat("[rank", own, "]: RuntimeError: Detected mismatch between collectives on ranks. Rank ", own,
                        " is running collective: CollectiveFingerPrint(SequenceNumber=5, OpType=", own_op,
                        ", TensorShape=[4], TensorDtypes=Float), but Rank ", other,
                        " is running collective: CollectiveFingerPrint(SequenceNumber=5, OpType=", other_op,
                        ", TensorShape=[4], TensorDtypes=Float).Collectives differ\n");
  };
  Put("train.log", line(0, "ALLREDUCE", 2, "BROADCAST") + line(2, "BROADCAST", 0, "ALLREDUCE"));
  ExpectOnly(Told(), MISMATCH_KIND, {2});
}

TEST_F(LogsTest, RanksThatDidNotComeToAMonitoredBarrier) {
  Put("train.log",
      "[rank0]: RuntimeError: [Rank 0]: Ranks 2 failed to pass monitoredBarrier in 2000 ms\n"
      "[rank1]: RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for "
      "send/recv from rank 0. Please check rank 0 logs for faulty rank.\n");
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {2});
}

std::string NcclCall(int rank, int op_count, int count, int size = 4) {
  return absl::StrCat("h1:", 900 + rank, ":", 950 + rank, " [", rank, "] NCCL INFO AllReduce: opCount ",
                      absl::Hex(op_count), " sendbuff 0x1 recvbuff 0x2 count ", count,
                      " datatype 7 op 0 root 0 comm 0x", absl::Hex(0x500 + rank), " [nranks=", size, "] stream 0x3\n");
}

TEST_F(LogsTest, CallsOfNcclAreCompared) {
  std::string log;
  for (int call = 14; call < 20; ++call) {
    for (int rank = 0; rank < 4; ++rank) log += NcclCall(rank, call, call == 18 && rank == 3 ? 5 : 6);
  }
  Put("nccl.txt", log);
  const Verdict verdict = Told();
  ExpectOnly(verdict, MISMATCH_COUNT, {3});
  EXPECT_EQ(verdict.findings(0).sequence(), 18);
}

TEST_F(LogsTest, ARankThatMadeFewerCallsOfNccl) {
  std::string log;
  for (int rank = 0; rank < 4; ++rank) {
    for (int call = 14; call < (rank == 1 ? 17 : 20); ++call) log += NcclCall(rank, call, 6);
  }
  Put("nccl.txt", log);
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {1});
}

TEST_F(LogsTest, ProcessesOfNcclInTheOrderOfTheirHosts) {
  std::string log;
  for (const char* host : {"node10", "node9"}) {
    for (int gpu = 0; gpu < 2; ++gpu) {
      log +=
          absl::StrCat(host, ":70:71 [", gpu, "] NCCL INFO AllReduce: opCount 3 sendbuff 0x1 recvbuff 0x2 count ",
                       host[4] == '9' && gpu == 1 ? 4 : 6, " datatype 7 op 0 root 0 comm 0x5 [nranks=4] stream 0x3\n");
    }
  }
  Put("nccl.txt", log);
  const Verdict verdict = Told();
  ExpectOnly(verdict, MISMATCH_COUNT, {1});
  EXPECT_EQ(verdict.findings(0).culprits(0).host(), "node9");
}

TEST_F(LogsTest, CommunicatorsThatNothingTellsApartAreNotCompared) {
  std::string log;
  for (int rank = 0; rank < 4; ++rank) log += Of(rank) + NcclCall(rank, 1, 6, 2);
  Put("nccl.txt", log);
  EXPECT_THAT(std::string(LoadPaths({folder_.path()}).status().message()),
              HasSubstr("4 processes use a comm of 2 ranks, and nothing shows which belong together"));
}

std::string Ras(int behind, int ahead) {
  return absl::StrCat(
      "Communicators... (0.00s)\n=============\n\n"
      "Group     Comms      Nodes     Ranks     Ranks     Ranks   Status  Errors\n"
      "    #  in group   per comm  per node  per comm  in group\n"
      "    0         1          2         4         8         8  RUNNING  MISMATCH\n\nErrors\n======\n\n\n"
      "Warnings\n========\n\n#0-0 (78db921d1c117b4a) MISMATCH\n"
      "  Communicator ranks have different AllReduce operation counts\n  7 ranks have launched up to operation ",
      ahead, "\n  Rank 6 has launched up to operation ", behind, " -- GPU 3 managed by process 165 on node node1\n\n");
}

TEST_F(LogsTest, CountsOfRasThatDoNotMove) {
  Put("ras.txt", Ras(60, 64) + Ras(60, 64));
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_NOT_ARRIVED, {6});
  EXPECT_EQ(verdict.findings(0).sequence(), 61);
  EXPECT_EQ(verdict.findings(0).culprits(0).host(), "node1");
  // A job that runs has such differences at any moment.
  for (const std::string& moving : {Ras(60, 64), Ras(60, 64) + Ras(63, 64)}) {
    Put("ras.txt", moving);
    EXPECT_THAT(std::string(LoadPaths({folder_.path()}).status().message()), HasSubstr("ncclras"));
  }
}

TEST_F(LogsTest, TheListedRanksOfRasAreTheFew) {
  std::string report =
      "    0         1         4         2         8         8   RUNNING  MISMATCH\n"
      "#0-0 (27a079b828ff1a75) MISMATCH\n  Communicator ranks have different collective operation counts\n"
      "  6 ranks have launched up to operation 6650\n  2 ranks have launched up to operation 6649\n"
      "  Rank 0 -- GPU 0 managed by process 48 on node 172.16.64.210\n"
      "  Rank 3 -- GPU 3 managed by process 51 on node 172.16.64.210\n";
  Put("ras.txt", report + "\n" + report);
  const Verdict verdict = Told();
  ASSERT_GE(verdict.findings_size(), 1) << Show(verdict);
  EXPECT_EQ(lockstep::testing::Culprits(verdict.findings(0)), (std::vector<int32_t>{0, 3})) << Show(verdict);
}

std::string PySpy(const std::string& function) {
  return absl::StrCat(
      "Process 7: python serve.py\nPython v3.12\n\nThread 7 (active): \"MainThread\"\n"
      "    all_reduce (comm.py:12)\n    ",
      function, " (model.py:30)\n    forward (model.py:50)\n");
}

TEST_F(LogsTest, FewStacksInAnotherPlace) {
  for (int rank = 0; rank < 8; ++rank) Put(absl::StrCat("rank_", rank, ".txt"), PySpy(rank == 6 ? "norm" : "mlp"));
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_NOT_ARRIVED, {6});
  EXPECT_THAT(verdict.findings(0).summary(), HasSubstr("norm (model.py:30)"));
  // Halves are roles.
  for (int rank = 0; rank < 4; ++rank) Put(absl::StrCat("rank_", rank, ".txt"), PySpy("norm"));
  EXPECT_EQ(Told().findings_size(), 0);
}

TEST_F(LogsTest, AStackWithoutItsRankIsSaid) {
  Put("stack.txt", PySpy("norm"));
  const auto status = LoadPaths({folder_.path()}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("line 1: a Python stack without its rank"));
}

TEST_F(LogsTest, FilesNamedAfterProcessesHoldNoRanks) {
  for (int pid : {7, 8}) {
    std::string stack = PySpy("norm");
    stack.replace(stack.find('7'), 1, std::to_string(pid));
    Put(absl::StrCat("pyspy_", pid, ".txt"), stack);
  }
  EXPECT_THAT(std::string(LoadPaths({folder_.path()}).status().message()), HasSubstr("without its rank"));
}

TEST_F(LogsTest, HostileNumbersAreBounded) {
  Put("train.log", "world_size=999999999999\n[rank65535]:" + Caught(65535, 7) + "[rank1048576]:" + Caught(3, 7) +
                       Of(2) + Counters("9(" + std::string(5000, 'x') + ")", 1048575, 2147483647, 5) +
                       "h:1:2 [0] NCCL INFO AllReduce: opCount ffffffffffffffff sendbuff 0x0 recvbuff 0x0 count "
                       "99999999999999999999 "
                       "datatype 300 op 9 root -4 comm 0xffffffffffffffff [nranks=1048576] stream 0x0\n");
  const Bundle bundle = Load();
  EXPECT_GE(bundle.ranks.size(), 1u);
  EXPECT_LE(bundle.ranks_expected, kMaxRanks);
  Analyze(bundle);
}

}  // namespace
}  // namespace lockstep
