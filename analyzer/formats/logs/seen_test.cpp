// Tests logs of creations, of NCCL's Inspector, and logs that show no rank's progress.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/logs/ranks.h"
#include "analyzer/report/report.h"
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
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SeenTest : public LogsTest {};

std::string Info(int rank, const std::string& text) {
  return absl::StrCat("h1:", 900 + rank, ":", 950 + rank, " [", rank, "] NCCL INFO ", text, "\n");
}

std::string Init(int rank, int size, const char* what) {
  return Info(rank,
              absl::StrCat("ncclCommInitRankConfig comm 0x", absl::Hex(0x7000 + rank), " rank ", rank, " nranks ", size,
                           " cudaDev ", rank, " nvmlDev ", rank, " busId 1000 commId 0xfeed - Init ", what));
}

std::string Split(int rank, int color, int inside, const char* what) {
  return Info(rank,
              absl::StrCat("ncclCommSplit comm 0x", absl::Hex(0x9000 + rank), " rank ", inside, " nranks 2 cudaDev ",
                           rank, " nvmlDev ", rank, " busId 1000 parent 0x", absl::Hex(0x7000 + rank),
                           " splitCount 1 color ", color, " key ", inside, " - Init ", what));
}

TEST_F(SeenTest, ARankThatIsMissingFromACreationIsNamed) {
  std::string log = Info(2, "Bootstrap: Using eth0:10.0.0.3<0>");
  for (const int rank : {0, 1, 3}) log += Init(rank, 4, "START");
  Put("log", log);
  ExpectOnly(Told(), INIT_INCOMPLETE, {2});
}

TEST_F(SeenTest, ARankThatIsMissingFromASplitIsNamed) {
  std::string log;
  for (int rank = 0; rank < 6; ++rank) log += Init(rank, 6, "START") + Init(rank, 6, "COMPLETE");
  for (const int rank : {0, 1, 3, 4, 5}) log += Split(rank, rank / 2, rank % 2, "START");
  for (const int rank : {0, 1, 4, 5}) log += Split(rank, rank / 2, rank % 2, "COMPLETE");
  Put("log", log);
  ExpectOnly(Told(), INIT_INCOMPLETE, {2});
}

TEST_F(SeenTest, FinishedAndRunningCreationsNameNobody) {
  std::string begun, done;
  for (int rank = 0; rank < 4; ++rank) begun += Init(rank, 4, "START"), done += Init(rank, 4, "COMPLETE");
  Put("log", begun);
  EXPECT_EQ(Told().verdict(), VERDICT_INCOMPLETE_DATA);
  EXPECT_EQ(Told().findings_size(), 0) << Show(Told());
  Put("log", begun + done);
  EXPECT_EQ(Told().findings_size(), 0) << Show(Told());
  // No rank returns before all have arrived, so the log is missing a line.
  Put("log", Init(0, 4, "START") + Init(1, 4, "START") + Init(3, 4, "START") + Init(0, 4, "COMPLETE"));
  EXPECT_EQ(Told().findings_size(), 0) << Show(Told());
}

// NCCL prints no ID for splits, so their parent, number and color identify them.
TEST_F(SeenTest, CallsOfSplitsAreCompared) {
  std::string log;
  for (int rank = 0; rank < 4; ++rank) {
    log += Init(rank, 4, "START") + Init(rank, 4, "COMPLETE") + Split(rank, rank % 2, rank / 2, "START") +
           Split(rank, rank % 2, rank / 2, "COMPLETE");
    for (int call = 0; call < (rank == 3 ? 2 : 3); ++call)
      log += Info(rank, absl::StrCat("AllReduce: opCount ", call,
                                     " sendbuff 0x1 recvbuff 0x2 count 6 datatype 7 op 0 root 0 comm 0x",
                                     absl::Hex(0x9000 + rank), " [nranks=2] stream 0x3"));
  }
  Put("log", log);
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {3});
}

// Without its beginning, a log does not show which send matches which receive.
TEST_F(SeenTest, SendsOfALogWithoutItsBeginningAreNotMatched) {
  const auto line = [](int rank, const char* op, int peer, int count) {
    return Info(rank, absl::StrCat(op, ": opCount ", count, " sendbuff 0x1 recvbuff 0x2 count 8 datatype 9 op 0 root ",
                                   peer, " comm 0x", absl::Hex(0x5000 + rank), " [nranks=2] stream 0x3"));
  };
  Put("log", line(0, "Send", 1, 4) + line(0, "Send", 1, 5) + line(1, "Recv", 0, 5));
  EXPECT_EQ(Told().findings_size(), 0) << Show(Told());
}

std::string Inspected(int rank, int number, bool header = true) {
  const std::string head = absl::StrCat(
      R"("header":{"id":"0x7f8c49","comm_name":"unknown","rank":)", rank, R"(,"n_ranks":2,"nnodes":1},"metadata":)",
      R"({"inspector_output_format_version":"v4.2","git_rev":"","dump_timestamp_us":1748030377748202,"hostname":"h","pid":)",
      40 + rank, "}");
  const std::string op = absl::StrCat(R"("coll_perf":{"coll":"AllReduce","coll_sn":)", number,
                                      R"(,"coll_msg_size_bytes":17179869184,"coll_exec_time_us":61974})");
  return header ? absl::StrCat("{", head, ",", op, "}\n") : absl::StrCat("{", op, "}\n");
}

// Since format 4.3 only the first line of a dump has a header.
TEST_F(SeenTest, FilesOfTheInspectorShowCompletedOperations) {
  Put("h-pid40.log", Inspected(0, 1) + Inspected(0, 2) + Inspected(0, 3));
  Put("h-pid41.log", Inspected(1, 1) + Inspected(1, 2, false));
  EXPECT_THAT(Said(),
              HasSubstr("the last AllReduce of comm 0x7f8c49 in the file of rank 1 is #2; other files reach #3"));
  const Bundle bundle = Load();
  ASSERT_EQ(bundle.ranks.size(), 2u);
  // Operations after the end of the other file prove nothing.
  EXPECT_EQ(bundle.ranks[0].ops.size(), 2u);
  EXPECT_EQ(bundle.ranks[1].ops.size(), 2u);
  EXPECT_EQ(bundle.ranks[1].pid, 41);
}

TEST_F(SeenTest, StuckWatchdogsAreReported) {
  std::string log;
  for (const int rank : {0, 1, 3})
    absl::StrAppend(
        &log, Of(rank), "[E513 12:38:14.493976596 ProcessGroupNCCL.cpp:1870] [PG ID 0 PG GUID 0(default_pg) Rank ",
        rank,
        "] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued "
        "collectives. If you suspect the watchdog is not actually stuck ..\n");
  Put("log", log);
  EXPECT_THAT(Said(), HasSubstr("the watchdogs of ranks 0, 1, 3 were stuck for 480 s"));
}

// Jobs that end normally also print this.
TEST_F(SeenTest, ALostStoreIsNoHang) {
  Put("log",
      Of(1) +
          "[W1120 10:05:00 ProcessGroupNCCL.cpp:1659] [PG ID 0 PG GUID 0(default_pg) Rank 1] Failed to check the "
          "\"should dump\" flag on TCPStore, (maybe TCPStore server has shut down too early), with error: Broken "
          "pipe\n");
  EXPECT_THAT(Said(), HasSubstr("rank 1 lost the store"));
}

TEST_F(SeenTest, ALogWithoutEvidenceIsIncompleteData) {
  Put("log", "[rank0]: step 1\n[rank1]: step 1\n");
  EXPECT_THAT(Said(), HasSubstr("a log of ranks 0, 1 without any timeout, exception, NCCL call or stack"));
}

// The lines of a batch name no peer. Seven ranks wait; no line mentions the eighth.
TEST_F(SeenTest, ABatchOfSendsWaitsForARankThatNoLineNames) {
  std::string log;
  for (int rank = 0; rank < 8; ++rank) {
    if (rank == 5) continue;
    log += Of(rank) + Caught(rank / 2, 20 + rank, "COALESCED", 0) + Of(rank) +
           Counters(absl::StrCat(1 + rank % 2, "(pipeline)"), rank / 2, 40, 19 + rank);
  }
  Put("log", log);
  ExpectOnly(Told(), RANK_NO_DATA, {5});
}

// It is unknown which ranks the other members are.
TEST_F(SeenTest, AGroupWithOneKnownMemberNamesNobody) {
  std::string log;
  for (const int rank : {0, 1, 2})
    log += Of(rank) + Caught(0, 3) + Of(rank) + Counters(absl::StrCat(13 + rank, "(data)"), 0, 3, 2);
  Put("log", log);
  EXPECT_EQ(Told().findings_size(), 0) << Show(Told());
  EXPECT_EQ(Told().verdict(), VERDICT_INCOMPLETE_DATA);
}

TEST_F(SeenTest, ColorsAndTimesOfToolsAreRemoved) {
  std::string log = "world_size=4\n";
  for (int rank : {0, 1, 3}) {
    const std::string own = TimedOut(rank, 7);
    for (size_t at = 0, end; (end = own.find('\n', at)) != std::string::npos; at = end + 1)
      absl::StrAppend(&log, "\x1b[36m2026-11-20T10:00:00.123456Z ", own.substr(at, end - at), "\x1b[0m\n");
  }
  Put("log", log + "\x1b[36m18:11:06.680 \x1b[0m" + Of(2) + " Traceback (most recent call last):\n18:11:06.680 " +
                 Of(2) + "   File \"/app/a.py\", line 3, in f\n18:11:06.680 " + Of(2) + " ValueError: a\n");
  ExpectOnly(Told(), RANK_DEAD, {2});
}

TEST(LogRanks, PlacesAreFoundByProcessGpuOrHost) {
  logs::Ranks ranks;
  ranks.AddPlace(3, "n1.site", 70, "0000:1b:00.0");
  ranks.AddPlace(4, "n1", 71, "");
  ranks.AddPlace(5, "n2", 70, "");
  ranks.AddPlace(6, "", 72, "");
  EXPECT_THAT(ranks.At("n1", 0, ""), ElementsAre(3, 4));
  EXPECT_THAT(ranks.At("n1.other", 70, ""), ElementsAre(3));
  EXPECT_THAT(ranks.At("", 70, ""), ElementsAre(3, 5));
  EXPECT_THAT(ranks.At("n1", 9, "0000:1b:00.0"), ElementsAre(3));
  EXPECT_THAT(ranks.At("n2", 0, "0000:1b:00.0"), ElementsAre());
  EXPECT_THAT(ranks.At("", 72, ""), ElementsAre(6));
  EXPECT_THAT(ranks.At("", 0, ""), ElementsAre());
}

TEST_F(SeenTest, TheHeadlineShowsErrorsWithoutProgress) {
  const auto headline = [this](const std::string& log) {
    Put("log", log);
    const Bundle bundle = Load();
    const std::string text = VerdictText(Analyze(bundle), bundle);
    std::string lines = text.substr(0, text.find("\n  do "));
    for (size_t end; (end = lines.find("\n           ")) != std::string::npos;) lines.replace(end, 12, " ");
    return lines;
  };
  const std::string memory = headline(
      "n3:25:66 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n3-ib<51159>\n"
      "n3:28:61 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n");
  EXPECT_THAT(memory,
              ::testing::EndsWith("NCCL warned, about process 28 on n3 (GPU 3): Cuda failure 'out of memory'."));
  EXPECT_THAT(headline("n7:984:13 [4] ib.c:1615 NCCL WARN NET/IB : Got completion from peer 10.1.1.2<44206> with "
                       "status=12 opcode=129 len=65536 vendor err 129 (Recv)\n"),
              HasSubstr("about process 984 on n7 (GPU 4): NET/IB : Got completion from peer 10.1.1.2<44206> with"));
  EXPECT_THAT(
      headline("n3:25:66 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n7<51159>\n"
               "n3:26:66 [1] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n4<5>\n"
               "n4:25:66 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n7<5>\n"),
      HasSubstr("NCCL's connections failed to n7 in 2 processes, to n4 in 1 process."));
  EXPECT_THAT(headline("Last error:\nsocketProgress: Connection closed by remote peer n8<59116>\n"),
              HasSubstr("NCCL warned: socketProgress: Connection closed by remote peer n8<59116>"));
  EXPECT_THAT(
      headline("E0213 12:41:17.931882   59040 rendezvous.cc:98] This thread has been waiting for `rendezvous of "
               "collective-permute; run_id=15; op id:1` for 20 seconds and may be stuck. Expected 8 threads to "
               "join the rendezvous, but not all of them arrived on time.\n"),
      HasSubstr("XLA reported: This thread has been waiting for `rendezvous of collective-permute"));
  EXPECT_THAT(
      headline("(raylet) A worker died or was killed while executing a task by an unexpected system error. Node "
               "ID: 1f Worker IP address: 10.2.3.4 Worker port: 10005 Worker PID: 833 Worker exit type: "
               "SYSTEM_ERROR\n"),
      HasSubstr("the scheduler reported, about process 833 on 10.2.3.4: Ray: a worker died"));
  EXPECT_THAT(
      headline("[rank10]:[E1013 03:22:49.6 ProcessGroupNCCL.cpp:1923] [PG ID 6 PG GUID 90(pp) Rank 1] [Rank 1] "
               "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=COALESCED, "
               "NumelIn=18446744073709551615, NumelOut=18446744073709551615, Timeout(ms)=600000) ran for 600096 "
               "milliseconds before timing out.\n"),
      ::testing::EndsWith("; there is no data from ranks 0-9; rank 10 waited for others until a timeout expired."));
  EXPECT_THAT(headline("RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting "
                       "for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n"),
              HasSubstr("rank 1 reached monitored_barrier, but rank 0, which checks who arrives, ended"));
}

// All ranks but one have joined, as the store counts them.
TEST_F(SeenTest, ARankThatDidNotJoinTheStoreIsNamed) {
  const auto waits = [](int rank, int count) {
    return absl::StrCat(
        "INFO:torch.distributed.distributed_c10d:Waiting in store based barrier to initialize process group for "
        "rank: ",
        rank, ", key: store_based_barrier_key:1 (world_size=4, worker_count=", count, ", timeout=0:30:00)\n");
  };
  Put("log", waits(0, 2) + waits(3, 3) + waits(1, 3) + waits(0, 3));
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {2});
  // Either rank 2 or rank 3 also joined.
  Put("log", waits(0, 3) + waits(1, 3));
  EXPECT_THAT(Said(), HasSubstr("ranks wait in init_process_group: 3 of 4 joined"));
  Put("log", waits(0, 1));
  EXPECT_THAT(Said(), HasSubstr("only 1 of 4 ranks joined in init_process_group"));
  Put("log", waits(0, 6));
  EXPECT_THAT(Said(), HasSubstr("another job, or an earlier attempt, uses the same store"));
  Put("log", waits(0, 3) + "Rank 0: Completed store-based barrier for key:store_based_barrier_key:1 with 4 nodes.\n");
  EXPECT_EQ(Told().findings_size(), 0);
}

TEST_F(SeenTest, EndsThatASchedulerCaused) {
  for (const char* line :
       {"slurmstepd: error: *** JOB 11 ON n1 CANCELLED AT 2026-11-20T10:00:00 DUE TO TIME LIMIT ***",
        "The node 'n2_88_0' has failed to send a keep-alive heartbeat to the rendezvous 'job' due to an error",
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR"}) {
    Put("log", absl::StrCat(line, "\n"));
    EXPECT_THAT(Said(), HasSubstr(absl::StrCat("the scheduler reported: ", line)));
  }
}

TEST_F(SeenTest, ErrorsOfAmdGpus) {
  Put("log", "HW Exception by GPU node-9 (Agent handle: 0x631351bb5a20) reason :GPU Hang\n");
  EXPECT_THAT(Said(), HasSubstr("the GPU runtime reported: HW Exception by GPU node-9 reason :GPU Hang"));
}

TEST_F(SeenTest, TensorsThatHorovodWaitsFor) {
  const std::string begin =
      "[2023-06-26 07:23:58.47: W horovod/common/stall_inspector.cc:107] One or more tensors were submitted to be "
      "reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 "
      "seconds. This may indicate that different ranks are trying to submit different tensors.\n";
  Put("log", begin + "Missing ranks:\n1: [grad/mul_0, grad/mul_1 ...]\nstep 7\n");
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {1});
  EXPECT_THAT(Show(Told()), HasSubstr("grad/mul_0"));
  // Every line has the label of the process that prints it.
  Put("log", "[0] " + begin + "[0] Missing ranks:\n[0] 0: [bias, weight ...]\n[0] 1: [bias, weight ...]\n");
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {0, 1});
  // Releases before 0.16, in a container.
  Put("log", "job.worker.1  | " + begin +
                 "job.worker.1  | Stalled ops:HorovodAllreduce_mul_1_0 [missing ranks: 2, 5]\n" +
                 "job.worker.1  | HorovodAllreduce_mul_2_0 [missing ranks: 2, 5]\n");
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {2, 5});
  // The newest warning counts.
  Put("log", begin + "Missing ranks:\n1: [grad/mul_0]\n" + begin + "Missing ranks:\n3: [grad/mul_9]\n");
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {3});
  Put("log", begin + "Missing ranks:\n0: [grad/mul_0]\n1: [grad/mul_1]\n");
  EXPECT_THAT(Said(),
              HasSubstr("rank 0 did not submit grad/mul_0, and rank 1 did not submit grad/mul_1: the ranks submit "
                        "different tensors"));
}

// With a search through all places or texts for each line, this test would not end.
TEST(LogRanks, ManyPlacesLinesAndTextsTakeLinearTime) {
  constexpr int kMany = 300'000;
  logs::Ranks ranks;
  for (int i = 0; i < kMany; ++i) ranks.AddPlace(i, "n1", 1000 + i, "");
  for (int i = 0; i < kMany; ++i) ASSERT_THAT(ranks.At("", 1000 + i, ""), ElementsAre(i));
  std::vector<logs::FileFacts> files(1);
  for (int i = 0; i < 4096; ++i) {
    logs::Notice notice;
    notice.by = logs::Notice::By::kKernel;
    notice.text = absl::StrCat(i);
    notice.host = "n1";
    files[0].notices.push_back({notice, {}, i});
  }
  logs::AddSeen(files, &ranks);
  EXPECT_THAT(ranks.told[0].text, HasSubstr(absl::StrCat("about ranks 0-", kMany - 1, ": 0")));

  fr::FileData* const data = ranks.Of(0, "log");
  for (int i = 0; i < kMany; ++i) logs::Ranks::Intern(data, absl::StrCat("operation ", i));
  EXPECT_EQ(logs::Ranks::Intern(data, absl::StrCat("operation ", kMany - 1)), kMany - 1u);
  EXPECT_EQ(data->strings.size(), size_t{kMany});
}

}  // namespace
}  // namespace lockstep
