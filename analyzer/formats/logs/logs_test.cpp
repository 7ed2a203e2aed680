// Tests whole logs: the ranks found in them, and the analysis of these ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "analyzer/testing/fr_dumps.h"
#include "analyzer/testing/log_folder.h"

namespace lockstep {
namespace {

using ::lockstep::testing::Caught;
using ::lockstep::testing::Counters;
using ::lockstep::testing::ExpectOnly;
using ::lockstep::testing::LogsTest;
using ::lockstep::testing::Of;
using ::lockstep::testing::Show;
using ::lockstep::testing::TimedOut;
using ::lockstep::testing::Torchrun;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(LogsTest, TheFirstFailureThatTorchrunReportsIsTheCause) {
  Put("log", TimedOut(0, 5) + TimedOut(2, 5) + Torchrun(3, -15, "37") + Torchrun(1, -6, "33"));
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_DEAD, {1});
  EXPECT_THAT(Show(verdict), HasSubstr("SIGABRT"));
}

// The dump of a rank that waits in the second operation of a group of `ranks`.
fr_test::FrDump Waiting(std::vector<int32_t> ranks) {
  fr_test::FrDump dump;
  dump.groups[0].ranks = std::move(ranks);
  dump.groups[0].enqueued = 2;
  dump.groups[0].completed = 1;
  dump.entries = {{.seq = 1, .state = "completed", .retired = true}, {.seq = 2}};
  return dump;
}

// Ranks 0 and 2 left dumps.
TEST_F(LogsTest, AnEndWithoutADumpIsReadFromALog) {
  for (const int rank : {0, 2}) Put(absl::StrCat("nccl_trace_rank_", rank), fr_test::ToPickle(Waiting({0, 1, 2})));
  Put("log", Torchrun(0, 1, "37") + Torchrun(1, -11, "33"));
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_DEAD, {1});
  EXPECT_THAT(Show(verdict), HasSubstr("SIGSEGV"));
}

// The kernel's log of the rank's host is a separate file.
TEST_F(LogsTest, TheKernelsLogShowsWhyAProcessWasKilled) {
  Put("log",
      "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-27_17:46:04\n  host      : n7\n"
      "  rank      : 1 (local_rank: 1)\n  exitcode  : -9 (pid: 4711)\n====\n");
  Put("n7_dmesg.txt",
      "[Fri Nov 27 17:46:03 2026] Out of memory: Killed process 4711 (python3) total-vm:8kB, anon-rss:4kB\n"
      "[Fri Nov 27 17:46:03 2026] Out of memory: Killed process 99 (exporter) total-vm:8kB, anon-rss:4kB\n");
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_DEAD, {1});
  EXPECT_EQ(verdict.findings(0).reason(), REASON_KILLED_FOR_MEMORY);
}

// Rank 1 is not in the dumps, and its watchdog printed only the number of its operation.
TEST_F(LogsTest, ACallWithoutANameDoesNotDifferFromDumps) {
  for (const int rank : {0, 2}) Put(absl::StrCat("nccl_trace_rank_", rank), fr_test::ToPickle(Waiting({0, 1, 2})));
  Put("log",
      "[rank1]:[E1127 17:46:04.1 ProcessGroupNCCL.cpp:1987] [PG ID 0 PG GUID 0(default_pg) Rank 1] Received a dump "
      "signal due to a collective timeout from this local rank and we will try our best to dump the debug info. Last "
      "enqueued NCCL work: 2, last completed NCCL work: 1.\n");
  const Verdict verdict = Told();
  for (const Finding& finding : verdict.findings()) EXPECT_NE(finding.kind(), MISMATCH_KIND);
}

// By itself, the launcher's report proves nothing, because a watchdog also aborts ranks that only wait. With dumps of
// other ranks that wait for this rank, it is evidence, unless the dumps show which rank did not arrive.
TEST_F(LogsTest, AnAbortIsTheCauseIfTheDumpsOfOthersWaitForThatRank) {
  fr_test::FrDump dump = Waiting({0, 1, 2, 3});
  for (const int rank : {0, 2, 3}) Put(absl::StrCat("nccl_trace_rank_", rank), fr_test::ToPickle(dump));
  Put("log", Torchrun(0, 1, "37") + Torchrun(1, -6, "33"));
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_DEAD, {1});
  EXPECT_LE(verdict.findings(0).confidence(), 0.6);
  EXPECT_THAT(Show(verdict), HasSubstr("SIGABRT"));
  // gloo aborts a rank that receives more than it expects, and the calls of the others agree.
  Put("log",
      "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at "
      "/pytorch/gloo/transport/tcp/pair.cc:464] op.preamble.length <= op.nbytes. 64 vs 32. Received data size "
      "doesn't match expected size.\n" +
          Torchrun(0, 1, "37") + Torchrun(1, -6, "33"));
  ExpectOnly(Told(), RANK_DEAD, {1});
  dump.groups[0].enqueued = 1;
  dump.entries.pop_back();
  Put("nccl_trace_rank_2", fr_test::ToPickle(dump));
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {2});
}

TEST_F(LogsTest, ALaunchersReportAloneNamesTheFirstFailure) {
  Put("log", Torchrun(2, 1, "33"));
  ExpectOnly(Told(), RANK_DEAD, {2});
  // The launcher itself ends processes with SIGTERM.
  Put("log", Torchrun(2, -15, "33"));
  Said();
  Put("log", "srun: error: gpu07: task 5: Out Of Memory\nsrun: error: gpu07: tasks 0-4: Terminated\n");
  const Verdict killed = Told();
  ExpectOnly(killed, RANK_DEAD, {5});
  EXPECT_THAT(Show(killed), HasSubstr("SIGKILL"));
  Put("log", "srun: error: gpu07: tasks 0-4: Killed\nsrun: error: gpu07: task 5: Exited with exit code 1\n");
  Said();  // the first line does not show which of the five tasks failed first
}

// A watchdog aborts processes that wait for another one.
TEST_F(LogsTest, AnAbortThatNothingExplainsMayBeTheWatchdogs) {
  Put("log", Torchrun(1, -6, "33"));
  EXPECT_THAT(Said(), HasSubstr("the launcher saw rank 1 abort first (SIGABRT)"));
  // Rank 4 has no line either.
  Put("log", "world_size=5\n" + TimedOut(0, 5) + TimedOut(2, 5) + Torchrun(1, -6, "33"));
  EXPECT_THAT(Show(Told()), Not(HasSubstr("RANK_DEAD")));
}

// Old releases print neither the number nor the group.
TEST_F(LogsTest, TimeoutsWithoutANumberShowWhoWaited) {
  std::string log = "world_size=4\n";
  for (const int rank : {0, 1, 3})
    absl::StrAppend(&log, "[E ProcessGroupNCCL.cpp:737] [Rank ", rank,
                    "] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, TensorShape=[64], "
                    "Timeout(ms)=1800000) ran for 1803170 milliseconds before timing out.\n");
  Put("log", log + Torchrun(1, -6, "33"));
  ExpectOnly(Told(), RANK_NO_DATA, {2});
}

// In some releases ("[PG 1 Rank 0]"), each process numbers its own groups. Here ranks 0 and 1 are a pair, and so are 2
// and 3.
TEST_F(LogsTest, GroupsThatEachProcessNumbersAreNotOneGroup) {
  std::string log = "world_size=6\n";
  for (const int rank : {0, 1, 2, 3, 5})
    absl::StrAppend(&log, Of(rank), Caught(rank % 2, 5), Of(rank),
                    "[E1120 10:00:01.6 ProcessGroupNCCL.cpp:1537] [PG 1 Rank ", rank % 2,
                    "] Timeout at NCCL work: 5, last enqueued NCCL work: 5, last completed NCCL work: 4.\n");
  Put("log", log);
  ExpectOnly(Told(), RANK_NO_DATA, {4});
}

// Rank 1 waited in the first attempt, and is missing in the second.
TEST_F(LogsTest, LinesOfAnEarlierAttemptDoNotCount) {
  std::string log = "world_size=4\n";
  for (const int rank : {0, 1, 3}) log += TimedOut(rank, 40);
  for (const int rank : {0, 2, 3}) {
    std::string later = TimedOut(rank, 12);
    for (size_t at = 0; (at = later.find(" 10:0", at)) != std::string::npos;) later.replace(at, 5, " 14:0");
    log += later;
  }
  Put("log", log);
  ExpectOnly(Told(), RANK_NO_DATA, {1});
}

// The last lines, printed by C++ code, have no torchrun prefix. "[Rank 1]" in these lines is a rank inside group 2.
TEST_F(LogsTest, LastLinesWithoutARankBelongToNoOtherRank) {
  std::string log = "world_size=4\n";
  for (const int rank : {0, 2, 3}) {
    log += Of(rank) + Caught(rank / 2, 9) + Of(rank) + Counters(absl::StrCat(1 + rank % 2, "(dp)"), rank / 2, 9, 8);
    log +=
        "  what():  " + Caught(rank / 2, 9).substr(std::string("[E1120 10:00:01.5 ProcessGroupNCCL.cpp:632] ").size());
  }
  Put("log", log);
  const Bundle bundle = Load();
  for (const Rank& rank : bundle.ranks) EXPECT_NE(rank.rank, 1);
}

// The only line is about the default group, which has completed everything; another group timed out.
TEST_F(LogsTest, ARankWhoseOwnWatchdogFoundTheTimeoutWaited) {
  std::string log = "world_size=4\n";
  for (const int rank : {0, 1, 3})
    absl::StrAppend(&log, Of(rank), "[E x] [PG ID 0 PG GUID 0(default_pg) Rank ", rank,
                    "] Received a dump signal due to a collective timeout from this local rank and we will try our "
                    "best to dump the debug info. Last enqueued NCCL work: 30, last completed NCCL work: 30.\n");
  Put("log", log + Torchrun(1, -6, "33"));
  EXPECT_THAT(Show(Told()), Not(HasSubstr("RANK_DEAD")));
  ExpectOnly(Told(), RANK_NO_DATA, {2});
}

// Lines from the host of ranks 0 and 1 do not begin with a rank. "[Rank 1]" in these lines is a position in group 1, as
// the line with the same number shows.
TEST_F(LogsTest, ANumberOfAnotherGroupIsNotARankOfTheJob) {
  std::string log = "world_size=4\n" + Caught(1, 42) + Counters("1", 1, 42, 41);
  for (const int rank : {2, 3}) log += Caught(rank, 7) + Counters("0(default_pg)", rank, 7, 6);
  Put("log", log);
  const Bundle bundle = Load();
  for (const Rank& rank : bundle.ranks) EXPECT_NE(rank.rank, 1);
  const Verdict verdict = Told();
  for (const Finding& finding : verdict.findings()) EXPECT_LE(finding.confidence(), 0.5) << Show(verdict);
}

std::string Making(int rank, int of) {
  return absl::StrCat("node0:", 100 + rank, ":", 200 + rank, " [", rank, "] NCCL INFO ncclCommInitRankConfig comm 0x",
                      10 + rank, " rank ", rank, " nranks ", of,
                      " cudaDev 0 nvmlDev 0 busId 1b000 commId 0xabc - Init START\n");
}

// The log ends while ranks arrive one by one, and its lines have no times.
TEST_F(LogsTest, ALogThatEndsInACreationDoesNotShowWhoIsMissing) {
  std::string log;
  for (const int rank : {0, 1, 2}) log += Making(rank, 4);
  Put("log", log + "node0:103:103 [3] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n");
  const Verdict verdict = Told();
  for (const Finding& finding : verdict.findings()) EXPECT_LE(finding.confidence(), 0.5) << Show(verdict);
}

std::string Exception(int rank, const std::string& text) {
  return Of(rank) + " Traceback (most recent call last):\n" + Of(rank) +
         "   File \"/app/train.py\", line 180, in main\n" + Of(rank) + "     loss.backward()\n" + Of(rank) + " " +
         text + "\n";
}

TEST_F(LogsTest, AnExceptionShowsWhichSilentRankEnded) {
  std::string log = "world_size=6\n";
  for (int rank : {0, 1, 2, 3}) log += TimedOut(rank, 5);
  const std::string connection = Exception(5, "RuntimeError: Connection closed by peer");
  Put("log", log + Exception(4, "torch.OutOfMemoryError: CUDA out of memory.") + connection);
  const Verdict verdict = Told();
  ASSERT_GE(verdict.findings_size(), 1) << Show(verdict);
  EXPECT_EQ(verdict.findings(0).kind(), RANK_DEAD);
  EXPECT_EQ(lockstep::testing::Culprits(verdict.findings(0)), (std::vector<int32_t>{4})) << Show(verdict);
  EXPECT_THAT(verdict.findings(0).summary(), HasSubstr("died of an exception: torch.OutOfMemoryError"));
  EXPECT_THAT(verdict.findings(0).place(), HasSubstr("train.py:180"));
  // Several exceptions, or one that the process survived, do not show which rank failed.
  std::string later;
  for (int i = 0; i < 40; ++i) later += Of(4) + " step\n";
  for (const std::string& more :
       {Exception(4, "ValueError: x") + Exception(5, "ValueError: x"), Exception(4, "ValueError: x") + later}) {
    Put("log", log + more);
    const Verdict open = Told();
    ASSERT_GE(open.findings_size(), 1) << Show(open);
    EXPECT_EQ(lockstep::testing::Culprits(open.findings(0)), (std::vector<int32_t>{4, 5})) << Show(open);
  }
}

// Some of the ranks that waited were killed before they could print a timeout. Rank 5 died of its own exception.
TEST_F(LogsTest, AnExceptionIsLikelierTheCauseThanARankWithoutLines) {
  std::string log = Exception(5, "IndexError: list index out of range");
  for (int rank : {0, 1, 3}) {
    log += Of(rank) + Caught(rank, 8) + Of(rank) + Counters("7(DATA_PARALLEL_GROUP)", rank, 8, 7);
  }
  Put("log", log);
  const Verdict verdict = Told();
  ASSERT_GE(verdict.findings_size(), 1);
  EXPECT_EQ(verdict.findings(0).kind(), RANK_DEAD) << Show(verdict);
  EXPECT_EQ(lockstep::testing::Culprits(verdict.findings(0)), (std::vector<int32_t>{5})) << Show(verdict);
}

TEST_F(LogsTest, AnErrorOfTheNetworkDoesNotRuleItOut) {
  std::string log;
  for (int rank : {0, 1, 3}) log += TimedOut(rank, 8);
  const auto ruled_out = [](const Verdict& verdict) {
    return std::any_of(verdict.ruled_out().begin(), verdict.ruled_out().end(),
                       [](const NotTheCause& not_it) { return not_it.what() == NotTheCause::NETWORK; });
  };
  Put("log", log);
  EXPECT_FALSE(ruled_out(Told())) << "rank 2 may be in the operation";
  log += Of(2) +
         "[E1120 10:00:01.7 ProcessGroupNCCL.cpp:1484] [PG ID 0 PG GUID 0(default_pg) Rank 2] Received a dump signal "
         "due to "
         "a collective timeout from rank 0. Last enqueued NCCL work: 7, last completed NCCL work: 7.\n";
  Put("log", log);
  EXPECT_TRUE(ruled_out(Told()));
  Put("log", log +
                 "node1:70:97 [3] transport/net_ib.cc:2130 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4> "
                 "with status=12 opcode=0 len=0 vendor err 129 (Send)\n");
  EXPECT_FALSE(ruled_out(Told()));
}

// Each host's torchrun numbers its workers from 0. The last lines of a process do not contain its rank.
TEST_F(LogsTest, LinesWithALocalRankBelongToTheRankOfThatWorker) {
  for (const int host : {0, 1}) {
    std::string log;
    for (int local = 0; local < 4; ++local) {
      const int rank = 4 * host + local;
      const std::string label = absl::StrCat("[default", local, "]:"), group = absl::StrCat(20 + local, "(DP)");
      log += label + Of(rank) + "step 7\n";
      if (rank == 3) continue;
      log += label + Of(rank) + Caught(host, 5) + label + Of(rank) + Counters(group, host, 5, 4);
      log += label + "  what():  " + Counters(group, host, 5, 4);
    }
    Put(absl::StrCat("node", host, ".log"), log);
  }
  const Bundle bundle = Load();
  EXPECT_EQ(std::count_if(bundle.ranks.begin(), bundle.ranks.end(), [](const Rank& r) { return !r.ops.empty(); }), 7);
}

// Ranks 2 and 3 print that they are in #5, but not which call it is. Ranks 0 and 1 make different calls.
TEST_F(LogsTest, ACallThatOthersDisagreeOnHasNoName) {
  const std::string unnamed = "[E1120 10:00:02.5 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank ";
  std::string log = TimedOut(0, 5) + TimedOut(1, 5, "REDUCE_SCATTER");
  for (int rank : {2, 3})
    log += Of(rank) + unnamed +
           absl::StrCat(rank,
                        "] Received a dump signal due to a collective timeout from  rank 0 and we will try our best "
                        "to dump the debug info. Last enqueued NCCL work: 5, last completed NCCL work: 4.\n");
  Put("log", log);
  const Verdict verdict = Told();
  ASSERT_GE(verdict.findings_size(), 1);
  EXPECT_EQ(lockstep::testing::Culprits(verdict.findings(0)), (std::vector<int32_t>{0, 1})) << Show(verdict);
}

// The group of all ranks is unused. Ranks 2 and 3 printed no timeout: one of them was killed before it could.
TEST_F(LogsTest, CountersOfAnUnusedGroupShowNobodyWhoIsElsewhere) {
  std::string log = "world_size=4\n";
  for (int rank : {0, 1}) log += Of(rank) + Caught(rank, 5) + Of(rank) + Counters("3(DP)", rank, 5, 4);
  for (int rank : {2, 3})
    log += Of(rank) + "[E1120 10:00:02.5 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank " +
           absl::StrCat(rank,
                        "] Received a dump signal due to a collective timeout from  rank 0 and we will try our best "
                        "to dump the debug info. Last enqueued NCCL work: -1, last completed NCCL work: -1.\n");
  Put("log", log);
  EXPECT_EQ(Load().ranks.size(), 2u);
}

// Only rank 0 reports, and its report names all others.
TEST_F(LogsTest, ReportOfTheDesyncDebugger) {
  Put("log",
      TimedOut(0, 9) +
          "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n"
          "\t   - [2] finished collective #8, but didn't join collective #9 (count from 1)\n"
          "\t - Snapshot of ranks' latest states:\n\t   #9 started ranks:\n\t     [0, 1, 3] started allreduce\n");
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {2});
}

// A watchdog ends a rank that waits for another.
TEST_F(LogsTest, ARankWithATimeoutDidNotFailFirst) {
  Put("log", TimedOut(0, 5) + TimedOut(2, 5) + "world_size=3\n" + Torchrun(0, -6, "33"));
  ExpectOnly(Told(), RANK_NO_DATA, {1});
}

TEST_F(LogsTest, TheTaskThatSrunReportsFirstIsTheCause) {
  Put("log", TimedOut(0, 5) + TimedOut(2, 5) + "srun: error: node1: task 1: Out Of Memory\n" +
                 "srun: error: node0: tasks 0,2: Aborted (core dumped)\n");
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_DEAD, {1});
  EXPECT_THAT(Show(verdict), HasSubstr("SIGKILL"));
}

std::string Traceback(int rank, const std::string& exception) {
  std::string text;
  for (const std::string& line :
       {std::string("Traceback (most recent call last):"),
        std::string("  File \"/job/train.py\", line 81, in <module>"), std::string("    main()"),
        std::string("  File \"/job/train.py\", line 40, in forward"), std::string("    x()"),
        std::string("  File \"/usr/lib/python3/dist-packages/torch/nn/modules/module.py\", line 7, in call"),
        exception})
    absl::StrAppend(&text, Of(rank), line, "\n");
  return text;
}

TEST_F(LogsTest, TheOnlyExceptionOfARankThatWaitsForNothingIsTheCause) {
  Put("log", Traceback(1, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB") + TimedOut(0, 5) +
                 TimedOut(2, 5));
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_DEAD, {1});
  EXPECT_THAT(verdict.findings(0).summary(), HasSubstr("torch.OutOfMemoryError: CUDA out of memory"));
  EXPECT_THAT(verdict.findings(0).place(), HasSubstr("train.py:40"));
}

TEST_F(LogsTest, ExceptionsThatShowNoFirstOneAccuseNobody) {
  const std::string waiting = TimedOut(0, 5) + TimedOut(2, 5) + "world_size=4\n";
  // Several ranks raise an exception.
  Put("log", Traceback(1, "ValueError: a") + Traceback(3, "ValueError: a") + waiting);
  EXPECT_THAT(Show(Told()), Not(HasSubstr("RANK_DEAD")));
  // This exception is a consequence of another process's end.
  Put("log", Traceback(1, "torch.distributed.DistBackendError: NCCL error in: x") + waiting);
  EXPECT_THAT(Show(Told()), Not(HasSubstr("RANK_DEAD")));
  // The process caught the exception and continued.
  std::string went_on;
  for (int i = 0; i < 100; ++i) absl::StrAppend(&went_on, Of(1), "step ", i, "\n");
  Put("log", Traceback(1, "ValueError: a") + went_on + waiting);
  EXPECT_THAT(Show(Told()), Not(HasSubstr("RANK_DEAD")));
}

TEST_F(LogsTest, TheRankWithoutATimeoutIsTheMissingOne) {
  std::string log = "starting, world_size=6\n";
  for (int rank : {0, 1, 2, 3, 4}) log += TimedOut(rank, 31);
  Put("train.txt", log);
  ExpectOnly(Told(), RANK_NO_DATA, {5});
}

TEST_F(LogsTest, CountersOfTheMissingRankAreUsed) {
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

// Two groups of one rank fail at the same number. The line with the operation names no group; the next line does.
TEST_F(LogsTest, AnOperationBelongsToTheGroupOfTheNextLine) {
  std::string log = "world_size=3\n";
  for (int rank : {0, 1}) {
    log += TimedOut(rank, 3, "ALLREDUCE", 1);
    if (rank == 0)
      log += Of(0) + Caught(0, 3, "ALLREDUCE", 65536) + Of(0) + Counters("5(DATA_PARALLEL_GROUP)", 0, 3, 2);
  }
  Put("train.log", log);
  ExpectOnly(Told(), RANK_NO_DATA, {2});
}

TEST_F(LogsTest, LinesThatATerminalCutBelongTogether) {
  std::string log;
  for (const int rank : {0, 1, 3}) {
    std::string caught = Of(rank) + Caught(rank, 7);
    caught.insert(caught.find("OpTy") + 4, "\n");
    caught.insert(caught.find("WorkNCCL("), "\n");
    std::string counters =
        Of(rank) + "[E1120 10:00:01.6 ProcessGroupNCCL.cpp:1664] [PG 0 (default_pg) Rank " + absl::StrCat(rank) +
        "] Exception (either an error or timeout) detected \nby watchdog at work: 7, last enqueued NCCL "
        "work: 7, last completed NCCL work: 6.\n";
    log += caught + counters;
  }
  Put("log", "world_size=4\n" + log);
  ExpectOnly(Told(), RANK_NO_DATA, {2});
  EXPECT_THAT(Show(Told()), HasSubstr("AllReduce"));
  // The rest of a truncated line does not belong to the next message.
  Put("log", "world_size=4\n" + log + Of(2) +
                 " [E1120 10:00:01.7 ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught "
                 "collective operation timeout: \n" +
                 Of(2) + "Traceback (most recent call last):\n" + Of(2) +
                 "  File \"/app/train.py\", line 20, in step\n" + Of(2) + "    step()\n" + Of(2) + "ValueError: 3\n");
  ExpectOnly(Told(), RANK_DEAD, {2});
}

// This release names the group only in a second line, which is missing for two ranks.
TEST_F(LogsTest, AnOperationBelongsToTheGroupThatAnotherRankNames) {
  std::string log = "world_size=5\n";
  for (const int rank : {0, 1, 2, 4}) log += Of(rank) + Caught(rank, 1580);
  log += Of(0) +
         "[PG 1 Rank 0] Exception (either an error or timeout) detected by watchdog at work: 1580, last enqueued "
         "NCCL work: 1582, last completed NCCL work: 1579.\n";
  Put("log", log);
  const Bundle bundle = Load();
  ASSERT_EQ(bundle.comms.size(), 1u);
  ExpectOnly(Analyze(bundle), RANK_NO_DATA, {3});
}

TEST_F(LogsTest, CommunicatorsOfNcclShowTheNumberOfRanks) {
  std::string log =
      "n1:29:30 [0] NCCL INFO comm 0x55f0 rank 0 nranks 3 cudaDev 0 busId 41000 commId 0xf3 - Init COMPLETE\n";
  for (const int rank : {0, 1, 2}) log += TimedOut(rank, 1);
  Put("log", log);
  ExpectOnly(Told(), COLLECTIVE_STUCK, {0, 1, 2});
}

// No line shows whether rank 3 is a member of group 1.
TEST_F(LogsTest, AGroupThatIsCountedMayHaveMoreRanksOfTheJob) {
  std::string log = "world_size=4\n";
  for (int rank : {0, 1, 2}) log += Of(rank) + Caught(rank, 5) + Of(rank) + Counters("1", rank, 5, 4);
  Put("train.log", log);
  const Verdict verdict = Told();
  EXPECT_EQ(verdict.verdict(), VERDICT_INCOMPLETE_DATA);
  for (const Finding& finding : verdict.findings()) EXPECT_NE(finding.kind(), COLLECTIVE_STUCK) << Show(verdict);
}

// The ranks of the second pair are members of a job of four ranks, even if the first pair's strides allow more.
TEST_F(LogsTest, AJobHasNoMoreRanksThanItsSize) {
  std::string log = "world_size=4\n";
  for (int rank : {0, 1, 2, 3}) log += TimedOut(rank, 3, "ALLREDUCE", 1);
  for (int rank : {0, 1}) log += Of(rank) + Caught(rank, 9) + Of(rank) + Counters("1(tp)", rank, 9, 8);
  log += Of(3) + Caught(0, 9) + Of(3) + Counters("2(tp)", 0, 9, 8);
  Put("train.log", log);
  EXPECT_EQ(Load().ranks_expected, 4);
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

// "[Rank 0]" from two tasks is a rank inside two groups.
TEST_F(LogsTest, RanksInsideOfGroupsAreNotRanksOfTheJob) {
  Put("slurm.out", "0: " + Caught(0, 7) + "1: " + Caught(1, 7) + "2: " + Caught(0, 9) + "3: " + Caught(1, 9));
  EXPECT_THAT(Said(), HasSubstr("line 1 does not name its process group"));
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

// If no line contains the size of the job, a rank that no line mentions may be the missing one.
TEST_F(LogsTest, ASizeThatNoLineContainsIsNotAssumed) {
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

TEST_F(LogsTest, ARankThatIsDoneNamesTheRankThatTimedOut) {
  Put("server.txt", Of(0) +
                        "[E x] [PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump signal due to a collective "
                        "timeout from rank 1 and we will. Last enqueued NCCL work: 8, last completed NCCL work: 8.\n");
  const Bundle bundle = Load();
  ASSERT_EQ(bundle.problems.size(), 2u);
  EXPECT_THAT(bundle.problems[0].text + bundle.problems[1].text, HasSubstr("rank 1's watchdog reported a timeout"));
  const Verdict verdict = Analyze(bundle);
  EXPECT_EQ(verdict.verdict(), VERDICT_INCOMPLETE_DATA);
  EXPECT_EQ(verdict.findings_size(), 0) << Show(verdict);
}

TEST_F(LogsTest, FingerprintsOfTwoRanksImplyTheCallsBetween) {
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

std::string Differs(const std::string& label, int own, int own_size, int other, int other_size) {
  return absl::StrCat(label, "RuntimeError: Detected mismatch between collectives on ranks. Rank ", own,
                      " is running collective: CollectiveFingerPrint(SequenceNumber=5, OpType=ALLREDUCE, TensorShape=[",
                      own_size, "], TensorDtypes=Float), but Rank ", other,
                      " is running collective: CollectiveFingerPrint(SequenceNumber=5, OpType=ALLREDUCE, TensorShape=[",
                      other_size, "], TensorDtypes=Float).Collectives differ\n");
}

// Fingerprints number ranks inside their group. Here, its members are ranks 4 to 7.
TEST_F(LogsTest, FingerprintsOfASmallerGroupNameRanksOfTheJob) {
  std::string log = "world_size=8\n";
  for (const int rank : {4, 5, 7}) log += Differs(absl::StrCat("[rank", rank, "]: "), rank - 4, 8, 2, 9);
  Put("train.log", log + Differs("[rank6]: ", 2, 9, 0, 8));
  ExpectOnly(Told(), MISMATCH_COUNT, {6});
  // If a rank has no line of its own, it is the member with the remaining number.
  Put("train.log", log);
  ExpectOnly(Told(), RANK_NO_DATA, {6});
  // Local ranks 4 and 5 are not ranks 0 and 1 of the job.
  Put("train.log", Differs("[default4]:", 0, 8, 1, 9) + Differs("[default5]:", 1, 9, 0, 8));
  EXPECT_THAT(Said(), HasSubstr("members 0 and 1 of a process group make different calls"));
}

TEST_F(LogsTest, RanksThatMissAMonitoredBarrierAreNamed) {
  Put("train.log",
      "[rank0]: RuntimeError: [Rank 0]: Ranks 2 failed to pass monitoredBarrier in 2000 ms\n"
      "[rank1]: RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for "
      "send/recv from rank 0. Please check rank 0 logs for faulty rank.\n");
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {2});
}

// Members 0 and 1 of a group that no line names may be any rank.
TEST_F(LogsTest, FingerprintsWithoutLabelsNameRanksOnlyOfTheWholeJob) {
  std::string log;
  for (const int member : {0, 1, 3}) log += Differs("", member, 8, 2, 9);
  log += Differs("", 2, 9, 0, 8);
  Put("train.log", log);
  EXPECT_THAT(Said(), HasSubstr("members 0 and 2 of a process group make different calls"));
  Put("train.log", "world_size=8\n" + log);
  EXPECT_THAT(Said(), HasSubstr("members 0 and 2 of a process group make different calls"));
  Put("train.log", "world_size=4\n" + log);
  ExpectOnly(Told(), MISMATCH_COUNT, {2});
}

std::string Gathers(int rank, int inside, const std::string& group, int in, int out) {
  return absl::StrCat(
      Of(rank), "[E1120 10:00:01.5 ProcessGroupNCCL.cpp:632] [Rank ", inside,
      "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=_ALLGATHER_BASE, NumelIn=", in,
      ", NumelOut=", out, ", Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n", Of(rank),
      Counters(group, inside, 12, 11));
}

// No line comes from the last member or contains the size of the job. The output is four times the input, so there are
// four members.
TEST_F(LogsTest, SizesOfAnOperationShowTheNumberOfMembers) {
  std::string log;
  for (const int rank : {0, 1, 2}) log += Gathers(rank, rank, "1(shard)", 50, 200);
  Put("log", log);
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_NO_DATA, {3});
  EXPECT_EQ(verdict.verdict(), VERDICT_INCOMPLETE_DATA);
}

// No number of members explains these sizes, so the group's size is unknown, and no call is wrong because of it.
TEST_F(LogsTest, NoCallContradictsASizeThatIsNotKnown) {
  std::string log;
  for (const int rank : {0, 1, 2}) log += Gathers(rank, rank, "1(shard)", 50, 210);
  Put("log", log);
  const Verdict verdict = Told();
  for (const Finding& finding : verdict.findings()) EXPECT_NE(finding.kind(), MISMATCH_COUNT) << Show(verdict);
}

// Ranks 0 and 1 wait in two groups that both are members of. Rank 2, which could show which wait came first, has no
// line.
TEST_F(LogsTest, WaitsThatCrossNameNobodyWhileARankIsMissing) {
  const auto waits = [](int rank, const std::string& group, int seq) {
    return Of(rank) + Caught(rank, seq) + Of(rank) + Counters(group, rank, seq, seq - 1);
  };
  const auto is_through = [](int rank, const std::string& group, int seq) {
    std::string line = Counters(group, rank, seq, seq);
    const size_t failure = line.find(" failure detected");
    return Of(rank) + line.erase(failure, line.find(" PG status") - failure);
  };
  std::string log = "world_size=3\n" + waits(0, "1(a)", 7) + is_through(0, "2(b)", 3);
  log += waits(1, "2(b)", 4) + is_through(1, "1(a)", 6);
  Put("log", log);
  const Bundle bundle = Load();
  std::string text;
  for (const Problem& problem : bundle.problems) absl::StrAppend(&text, problem.text, "\n");
  EXPECT_THAT(text, HasSubstr("does not show which wait began first"));
  const Verdict verdict = Analyze(bundle);
  for (const Finding& finding : verdict.findings()) EXPECT_NE(finding.kind(), DEADLOCK_CYCLE) << Show(verdict);
}

// Rank 3 is member 1 of a group, and no line names its member 0. Rank 2 is the only rank without a line.
TEST_F(LogsTest, AMemberThatNoLineNamesIsOneWithoutALine) {
  std::string log = "world_size=4\n";
  for (const int rank : {0, 1}) log += TimedOut(rank, 4);
  log += Of(3) + Caught(1, 9) + Of(3) + Counters("4(tensor)", 1, 9, 8);
  Put("log", log);
  const Verdict verdict = Told();
  ASSERT_GE(verdict.findings_size(), 1) << Show(verdict);
  EXPECT_EQ(verdict.findings(0).kind(), RANK_NO_DATA) << Show(verdict);
  EXPECT_EQ(lockstep::testing::Culprits(verdict.findings(0)), (std::vector<int32_t>{2})) << Show(verdict);
}

std::string PySpy(const std::string& function) {
  return absl::StrCat(
      "Process 7: python serve.py\nPython v3.12\n\nThread 7 (active): \"MainThread\"\n"
      "    all_reduce (comm.py:12)\n    ",
      function, " (model.py:30)\n    forward (model.py:50)\n");
}

TEST_F(LogsTest, AFewStacksInAnotherPlaceAreNamed) {
  for (int rank = 0; rank < 8; ++rank) Put(absl::StrCat("rank_", rank, ".txt"), PySpy(rank == 6 ? "norm" : "mlp"));
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_NOT_ARRIVED, {6});
  EXPECT_THAT(verdict.findings(0).summary(), HasSubstr("norm (model.py:30)"));
  // Half of the ranks have a different role.
  for (int rank = 0; rank < 4; ++rank) Put(absl::StrCat("rank_", rank, ".txt"), PySpy("norm"));
  EXPECT_EQ(Told().findings_size(), 0);
}

TEST_F(LogsTest, StacksAndExceptionsInCollectedLogs) {
  const auto collected = [](const std::string& text) {
    std::string out;
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n')))
      absl::StrAppend(&out, "{\"log\":\"", absl::StrReplaceAll(line, {{"\"", "\\\""}}),
                      "\\n\",\"stream\":\"stderr\"}\n");
    return out;
  };
  std::string stacks;
  for (int rank = 0; rank < 8; ++rank)
    absl::StrAppend(&stacks, "rank ", rank, ":\n", PySpy(rank == 6 ? "norm" : "mlp"));
  Put("log", collected(stacks));
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {6});
  Put("log",
      collected("[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/app/train.py\", line 20, in step\n"
                "[rank1]:     step()\n[rank1]: KeyError: 'input_ids'\n"));
  ExpectOnly(Told(), RANK_DEAD, {1});
  // A single object contains a whole traceback.
  Put("log",
      "{\"message\":\"step 7\"}\n"
      "{\"message\":\"[rank1]: Traceback (most recent call last):\\n[rank1]:   File \\\"/app/train.py\\\", line 20, in "
      "step\\n[rank1]:     step()\\n[rank1]: KeyError: 'input_ids'\"}\n");
  ExpectOnly(Told(), RANK_DEAD, {1});
}

// The log does not show which group rank 1 belongs to. Its stack shows that it is in no call.
TEST_F(LogsTest, AStackOfTheRankThatIsInNoCall) {
  std::string log = "world_size=4\n";
  for (int rank : {2, 3}) log += Of(rank) + Caught(rank - 2, 13) + Of(rank) + Counters("8(TP)", rank - 2, 13, 12);
  log += Of(0) + Caught(0, 3) + Of(0) + Counters("9(DP)", 0, 3, 2);
  Put("train.log", log);
  Put("rank_1.txt",
      "Process 7: python train.py\nPython v3.12\n\nThread 7 (idle): \"MainThread\"\n    select (selectors.py:416)\n"
      "    wait (multiprocessing/connection.py:931)\n    __next__ (torch/utils/data/dataloader.py:630)\n"
      "    main (train.py:40)\n    <module> (train.py:50)\n");
  ExpectOnly(Told(), HOST_STALL, {1});
}

TEST_F(LogsTest, TwoRanksThatWaitAtDifferentPlaces) {
  const auto stack = [](const std::string& call, const std::string& caller) {
    return absl::StrCat("Thread 9 (idle): \"MainThread\"\n    ", call,
                        " (torch/distributed/distributed_c10d.py:3696)\n    ", caller,
                        " (trainer.py:140)\n    main (train.py:20)\n    <module> (train.py:30)\n");
  };
  Put("rank_0.txt", stack("barrier", "save_checkpoint"));
  Put("rank_1.txt", stack("all_reduce", "train_step"));
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {0, 1});
  EXPECT_LE(Told().findings(0).confidence(), 0.5);
  EXPECT_THAT(Show(Told()), HasSubstr("in barrier, called from save_checkpoint() at trainer.py:140"));
  EXPECT_THAT(Show(Told()), HasSubstr("in all_reduce, called from train_step() at trainer.py:140"));
  EXPECT_EQ(Told().findings(0).activity(), "");  // waits for rank 1, not for a file
  // Both ranks wait at the same place.
  Put("rank_1.txt", stack("barrier", "save_checkpoint"));
  EXPECT_EQ(Told().findings_size(), 0);
}

// faulthandler's lines from several processes in one file, with torchrun's prefix.
TEST_F(LogsTest, StacksOfLocalRanksAreSeparated) {
  std::string log;
  for (const char* line : {"Thread 0x00007f1b (most recent call first):", "  File \"/app/comm.py\", line 9 in reduce",
                           "  File \"/app/train.py\", line % in step"}) {
    for (int rank = 0; rank < 4; ++rank) {
      std::string text = line;
      if (const size_t at = text.find('%'); at != std::string::npos) text.replace(at, 1, rank == 2 ? "40" : "30");
      log += absl::StrCat("[default", rank, "]:", text, "\n");
    }
  }
  Put("log", log);
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {2});
}

// The end of one file is missing. Its frames are at the same place as the others'.
TEST_F(LogsTest, AStackThatIsCutOffIsNotCompared) {
  for (int rank = 0; rank < 8; ++rank) {
    std::string stack = PySpy("mlp") + "    <module> (train.py:210)\n";
    if (rank == 3) stack = stack.substr(0, stack.find("    forward"));
    Put(absl::StrCat("rank_", rank, ".txt"), stack);
  }
  EXPECT_EQ(Told().findings_size(), 0) << Show(Told());
}

// The last thread in a truncated file looks complete.
TEST_F(LogsTest, AnotherThreadIsNotTheMainThread) {
  for (int rank = 0; rank < 4; ++rank) {
    const std::string helper =
        "Thread 0x01 (most recent call first):\n  File \"/usr/lib/python3.11/threading.py\", line 331 in wait\n"
        "  File \"/usr/lib/python3.11/threading.py\", line 1002 in _bootstrap\n\n";
    const std::string own =
        "Thread 0x02 (most recent call first):\n  File \"/app/comm.py\", line 9 in reduce\n"
        "  File \"/app/train.py\", line 30 in <module>\n";
    Put(absl::StrCat("rank_", rank, ".txt"), rank == 3 ? helper : helper + own);
  }
  EXPECT_EQ(Told().findings_size(), 0) << Show(Told());
}

std::string Gdb(int pid, const std::string& innermost) {
  return absl::StrCat("Thread 2 (Thread 0x7f01 (LWP ", pid + 1,
                      ")):\n#0  0x00007f in __poll () from /lib/libc.so.6\n\n", "Thread 1 (Thread 0x7f02 (LWP ", pid,
                      ")):\n#0  0x00007f in ", innermost,
                      "\n#1  0x000055 in PyEval_EvalCode ()\n#2  0x000055 in _start ()\n");
}

TEST_F(LogsTest, NativeStacksShowWhoIsOutsideOfAllWaits) {
  const std::string waits = "cudaStreamSynchronize () from /lib/libcudart.so.12",
                    reads = "__libc_read (fd=31) at read.c:26";
  for (int rank = 0; rank < 4; ++rank)
    Put(absl::StrCat("rank_", rank, ".txt"), Gdb(4000 + rank, rank == 2 ? reads : waits));
  const Verdict verdict = Told();
  ExpectOnly(verdict, HOST_STALL, {2});
  EXPECT_LE(verdict.findings(0).confidence(), 0.6);
  for (int rank = 0; rank < 4; ++rank) Put(absl::StrCat("rank_", rank, ".txt"), Gdb(4000 + rank, waits));
  EXPECT_EQ(Told().findings_size(), 0) << Show(Told());
}

TEST_F(LogsTest, AStackWithoutARankIsReported) {
  Put("stack.txt", PySpy("norm"));
  EXPECT_THAT(Said(), HasSubstr("line 1: a stack without a rank"));
}

TEST_F(LogsTest, NamesOfHostsContainNoRanks) {
  const std::string failed =
      "Traceback (most recent call last):\n  File \"/app/train.py\", line 20, in step\n    step()\nKeyError: 'x'\n";
  Put("node20.log", "step 7\n");
  Put("node21.log", failed);
  EXPECT_THAT(Said(), HasSubstr("no line shows its rank"));
}

TEST_F(LogsTest, StacksNamedAfterHostsAndGpusFollowTheirOrder) {
  for (const char* host : {"gpu-node9", "gpu-node10"}) {
    for (int gpu = 0; gpu < 4; ++gpu) {
      const bool odd = host == std::string("gpu-node10") && gpu == 1;
      Put(absl::StrCat(host, "_gpu", gpu, "_", 4100 + 7 * gpu, ".txt"), PySpy(odd ? "norm" : "mlp"));
    }
  }
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {5});
}

TEST_F(LogsTest, NamesOfProcessesContainNoRanks) {
  for (int pid : {7, 8}) {
    std::string stack = PySpy("norm");
    stack.replace(stack.find('7'), 1, std::to_string(pid));
    Put(absl::StrCat("pyspy_", pid, ".txt"), stack);
  }
  EXPECT_THAT(Said(), HasSubstr("without a rank"));
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
