// Tests NCCL's own output: calls and communicators in its log, and counts from its RAS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/logs/ras.h"
#include "analyzer/testing/log_folder.h"

namespace lockstep {
namespace {

using ::lockstep::testing::ExpectOnly;
using ::lockstep::testing::LogsTest;
using ::lockstep::testing::Of;
using ::lockstep::testing::Show;
using ::testing::HasSubstr;

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

// The job is still running, or the files were truncated: ranks end anywhere.
TEST_F(LogsTest, CallsOfNcclThatEndAnywhereShowNoHang) {
  std::string log;
  for (int rank = 0; rank < 4; ++rank) {
    for (int call = 14; call < 20 + rank; ++call) log += NcclCall(rank, call, call == 16 && rank == 3 ? 5 : 6);
  }
  Put("nccl.txt", log);
  ExpectOnly(Told(), MISMATCH_COUNT, {3});  // from the calls that all ranks have made
  log.clear();
  for (int rank = 0; rank < 4; ++rank) {
    for (int call = 14; call < 20 + rank; ++call) log += NcclCall(rank, call, 6);
  }
  Put("nccl.txt", log);
  EXPECT_THAT(Said(), HasSubstr("last calls are at many different places"));
}

// Processes run ahead of their GPUs by different numbers of calls. If half of the ranks made fewer, no rank is named.
TEST_F(LogsTest, HalfOfTheRanksBehindNameNobody) {
  std::string log;
  for (int rank = 0; rank < 4; ++rank) {
    for (int call = 14; call < 20 + rank % 2; ++call) log += NcclCall(rank, call, 6);
  }
  Put("nccl.txt", log);
  EXPECT_THAT(Said(), HasSubstr("last calls are at many different places"));
}

// The job is healthy. Some of rank 1's lines are lost, so its last ones may be lost, too.
TEST_F(LogsTest, ALogWithHolesDoesNotShowWhereRanksEnd) {
  std::string log;
  for (int call = 14; call < 20; ++call) {
    for (int rank = 0; rank < 4; ++rank) {
      if (rank != 1 || (call != 16 && call != 19)) log += NcclCall(rank, call, 6);
    }
  }
  Put("nccl.txt", log);
  EXPECT_EQ(Told().findings_size(), 0) << Show(Told());
}

// Lines of rank 1 are lost in the middle, not at the end.
TEST_F(LogsTest, CallsOfNcclAreNumberedByTheirCount) {
  std::string log;
  for (int call = 14; call < 20; ++call) {
    for (int rank = 0; rank < 4; ++rank) {
      if (rank != 1 || call == 14 || call > 16) log += NcclCall(rank, call, 6);
    }
  }
  Put("nccl.txt", log);
  EXPECT_EQ(Told().findings_size(), 0) << Show(Told());
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

// Two communicators of four ranks each: neither is the whole job, so their ranks are not those of the job.
TEST_F(LogsTest, TheLargestCommunicatorOfNcclMayNotBeTheJob) {
  std::string log;
  for (int rank = 0; rank < 8; ++rank) {
    const std::string process = absl::StrCat(rank, ": h1:", 900 + rank, ":950 [", rank, "] NCCL INFO ");
    const std::string comm = absl::StrCat(" comm 0x", absl::Hex(0x500 + rank));
    absl::StrAppend(&log, process, "ncclCommInitRank", comm, " rank ", rank / 2, " nranks 4 cudaDev ", rank,
                    " nvmlDev 0 busId 1b000 commId 0x", 70 + rank % 2, " - Init COMPLETE\n");
    for (int call = 0; call < (rank == 5 ? 2 : 3); ++call)
      absl::StrAppend(&log, process, "AllReduce: opCount ", call,
                      " sendbuff 0x1 recvbuff 0x2 count 6 datatype 7 op 0 root 0", comm, " [nranks=4] stream 0x3\n");
  }
  Put("nccl.txt", log);
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {5});
}

TEST_F(LogsTest, IndistinguishableCommunicatorsAreNotCompared) {
  std::string log;
  for (int rank = 0; rank < 4; ++rank) log += Of(rank) + NcclCall(rank, 1, 6, 2);
  Put("nccl.txt", log);
  EXPECT_THAT(Said(), HasSubstr("4 processes use a comm of 2 ranks, and nothing shows which of them belong together"));
}

// A line of a communicator of four: a call, or a send or receive whose root is the peer.
std::string Line(int rank, const std::string& op, int peer = 0, int count = 8) {
  return absl::StrCat("h1:", 900 + rank, ":", 950 + rank, " [", rank, "] NCCL INFO ", op,
                      ": opCount 0 sendbuff 0x1 recvbuff 0x2 count ", count, " datatype 9 op 0 root ", peer, " comm 0x",
                      absl::Hex(0x500 + rank), " [nranks=4] stream 0x3\n");
}

// In a pipeline, rank 2 stops before its second micro-batch. So rank 1 waits for it, and rank 0 waits for rank 1.
TEST_F(LogsTest, SendsAndReceivesOfNcclAreMatched) {
  std::string log;
  for (int rank = 0; rank < 4; ++rank) {
    for (int batch = 0; batch < (rank == 2 ? 1 : 2); ++batch) {
      const bool stuck = batch == 1;
      if (rank > 0) log += Line(rank, "Recv", rank - 1);
      if (rank < 3) log += Line(rank, "Send", rank + 1) + Line(rank, "Recv", rank + 1);
      if (rank > 0 && !stuck) log += Line(rank, "Send", rank - 1);
    }
  }
  Put("nccl.txt", log);
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {2});
}

TEST_F(LogsTest, MatchedSendsOfNcclNameNobody) {
  std::string log;
  for (int batch = 0; batch < 3; ++batch)
    log += Line(0, "Send", 1) + Line(1, "Recv", 0) + Line(1, "Send", 2) + Line(2, "Recv", 1);
  Put("nccl.txt", log);
  EXPECT_EQ(Told().findings_size(), 0) << Show(Told());
}

TEST_F(LogsTest, ASendOfNcclOfAnotherSizeThanItsReceive) {
  std::string log;
  for (int batch = 0; batch < 3; ++batch) log += Line(0, "Send", 1, batch == 2 ? 9 : 8) + Line(1, "Recv", 0);
  Put("nccl.txt", log);
  const Verdict verdict = Told();
  ASSERT_GE(verdict.findings_size(), 1) << Show(verdict);
  EXPECT_EQ(verdict.findings(0).kind(), MISMATCH_COUNT) << Show(verdict);
  EXPECT_EQ(lockstep::testing::Culprits(verdict.findings(0)), (std::vector<int32_t>{0, 1})) << Show(verdict);
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
  // A running job has such differences at any moment.
  for (const std::string& moving : {Ras(60, 64), Ras(60, 64) + Ras(63, 64)}) {
    Put("ras.txt", moving);
    EXPECT_THAT(Said(), HasSubstr("ncclras"));
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

// Rank 5 of the job is rank 1 of its communicator of two.
TEST_F(LogsTest, RasNumbersRanksWithinTheirCommunicator) {
  const std::string rows =
      "    0         1         4         2         8         8   RUNNING  OK\n"
      "    1         1         1         2         2         2   RUNNING  MISMATCH\n";
  const auto of = [](const std::string& id) {
    return absl::StrCat("#1-0 (", id,
                        ") MISMATCH\n  Communicator ranks have different collective operation counts\n"
                        "  Rank 0 has launched up to operation 7 -- GPU 4 managed by process 54 on node a\n"
                        "  Rank 1 has launched up to operation 6 -- GPU 5 managed by process 55 on node a\n\n");
  };
  Put("ras.txt", rows + of("1a") + rows + of("1a"));
  const Verdict one = Told();
  ExpectOnly(one, RANK_NOT_ARRIVED, {1});
  EXPECT_EQ(one.findings(0).culprits(0).pid(), 55);
  EXPECT_LE(one.findings(0).confidence(), 0.7) << "a call that both launched may hold it up: the counts show none";
  const Bundle bundle = Load();
  ASSERT_EQ(bundle.problems.size(), 1u);
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("rank numbers are those in communicator 1a"));
  // If there are several communicators, one number would mean different ranks.
  Put("ras.txt", rows + of("1a") + of("1b") + rows + of("1a") + of("1b"));
  EXPECT_THAT(Said(), HasSubstr("rank 1 of its 2 (GPU 5, process 55 on a) launched the fewest"));
}

std::string RasJson(int behind, int ahead, const char* missing = "") {
  std::string ranks;
  for (int rank = 0; rank < 8; ++rank)
    absl::StrAppend(&ranks, rank == 0 ? "" : ",", "\n{\"rank\": ", rank, ", \"host\": \"10.0.0.", rank / 4,
                    "\", \"pid\": ", 70 + rank, ", \"cuda_dev\": 0, \"nvml_dev\": ", rank % 4,
                    ", \"status\": {\"init_state\": 0}, \"collective_counts\": {\"Broadcast\": 2, \"AllReduce\": ",
                    rank == 6 ? behind : ahead, "}}");
  return absl::StrCat("{\n  \"nccl_version\": \"2.29.1\",\n  \"communicators_count\": 1,\n  \"communicators\": [\n",
                      "    {\"hash\": \"0xae94\", \"size\": 8, \"ranks\": [", ranks, "],\n \"missing_ranks\": [",
                      missing, "]}\n  ],\n  \"ras\": {\"timeouts_count\": 0}\n}\n");
}

TEST_F(LogsTest, CountsOfRasInJson) {
  Put("ras.json", RasJson(60, 64) + RasJson(60, 64));
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_NOT_ARRIVED, {6});
  EXPECT_EQ(verdict.findings(0).sequence(), 61);
  EXPECT_EQ(verdict.findings(0).culprits(0).pid(), 76);
  Put("ras.json", RasJson(60, 64));
  EXPECT_THAT(Said(), HasSubstr("add a second one"));
  Put("ras.json", RasJson(64, 64));
  EXPECT_THAT(Said(), HasSubstr("the same number of operations"));
  Put("ras.json", RasJson(64, 64,
                          "{\"rank\": 3, \"host\": \"h\", \"pid\": 9, \"nvml_dev\": 2, \"status\": "
                          "{\"considered_dead\": true}}"));
  EXPECT_THAT(Said(), HasSubstr("rank 3 of its 8 (GPU 2, process 9 on h) is dead"));
  Put("ras.json",
      RasJson(64, 64, "{\"rank\": 3, \"host\": \"h\", \"pid\": 9, \"status\": {\"considered_dead\": true}}"));
  EXPECT_THAT(Said(), HasSubstr("rank 3 of its 8 (process 9 on h) is dead"));
}

// Describes a communicator whose members are the job's ranks from 4 on, with PID 50 + rank, and their two counts.
std::string RasOfPart(const std::vector<std::pair<int, int>>& counts) {
  std::string ranks, whole;
  for (size_t i = 0; i < counts.size(); ++i) {
    absl::StrAppend(&ranks, i == 0 ? "" : ",", "{\"rank\": ", i, ", \"host\": \"10.0.0.1\", \"pid\": ", 54 + i,
                    ", \"nvml_dev\": ", i, ", \"collective_counts\": {\"AllReduce\": ", counts[i].first,
                    ", \"AllGather\": ", counts[i].second, "}}");
  }
  return absl::StrCat("{\n\"nccl_version\": \"2.32.3\",\n\"communicators_count\": 2,\n\"communicators\": [\n",
                      "{\"hash\": \"0x1\", \"size\": 8, \"ranks\": []}, {\"hash\": \"0xae94\", \"size\": ",
                      counts.size(), ", \"ranks\": [", ranks, "]}]\n}\n");
}

// Describes four processes on one host, in communicators of two: each pair and its AllReduces.
std::string RasOfPairs(const std::vector<std::vector<std::pair<int, int>>>& pairs) {
  std::string comms;
  for (size_t c = 0; c < pairs.size(); ++c) {
    std::string ranks;
    for (size_t i = 0; i < pairs[c].size(); ++i) {
      const auto& [rank, count] = pairs[c][i];
      absl::StrAppend(&ranks, i == 0 ? "" : ",", "{\"rank\": ", i, ", \"host\": \"a\", \"pid\": ", 50 + rank,
                      ", \"nvml_dev\": ", rank, ", \"collective_counts\": {\"AllReduce\": ", count, "}}");
    }
    absl::StrAppend(&comms, c == 0 ? "" : ",", "{\"hash\": \"0x", c, "\", \"size\": 2, \"ranks\": [", ranks, "]}");
  }
  return absl::StrCat("{\"nccl_version\": \"2.29.1\", \"communicators_count\": 4, \"communicators\": [", comms, "]}\n");
}

// Rank 3 stopped. Rank 1 waits for it, and rank 2 waits for both.
TEST_F(LogsTest, RanksOfRasWithoutACommunicatorOfTheWholeJob) {
  const std::string report = RasOfPairs({{{0, 7}, {1, 7}}, {{2, 9}, {3, 8}}, {{0, 5}, {2, 5}}, {{1, 5}, {3, 4}}});
  Put("ras.json", report + report);
  ExpectOnly(Told(), RANK_NOT_ARRIVED, {3});
}

std::string Processes() {
  std::string text;
  for (int rank = 0; rank < 8; ++rank) {
    absl::StrAppend(&text, logs::RankProcessLine({rank, 50 + rank, "10.0.0.1"}));
    absl::StrAppend(&text, logs::RankProcessLine({rank, 50 + rank, "127.0.0.1"}));
  }
  return text;
}

TEST_F(LogsTest, MembersOfRasAreFoundByTheirProcesses) {
  const std::string report = RasOfPart({{9, 2}, {9, 2}, {8, 2}, {9, 2}});
  Put("ras.json", report + report);
  Put("processes.txt", Processes());
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_NOT_ARRIVED, {6});
  EXPECT_EQ(verdict.findings(0).culprits(0).pid(), 56);
}

TEST_F(LogsTest, TwoMembersOfRasThatDifferAreBothPossible) {
  for (const auto& counts : {std::vector<std::pair<int, int>>{{9, 2}, {8, 2}}, {{8, 2}, {9, 2}}}) {
    Put("ras.json", RasOfPart(counts) + RasOfPart(counts));
    Put("processes.txt", Processes());
    EXPECT_EQ(Told().findings_size(), 0);
    EXPECT_THAT(Said(), HasSubstr("ranks 4 and 5 launched different calls on communicator 0xae94 (AllReduce)"));
  }
}

TEST_F(LogsTest, CountsOfRasThatCrossNameNobody) {
  const std::string report = RasOfPart({{9, 2}, {9, 2}, {8, 3}, {9, 2}});
  Put("ras.json", report + report);
  Put("processes.txt", Processes());
  EXPECT_EQ(Told().findings_size(), 0);
  EXPECT_THAT(Said(), HasSubstr("made a call of another kind"));
}

TEST_F(LogsTest, EqualCountsOfRasNameNobody) {
  Put("ras.txt", "    0         1         4         2         8         8   RUNNING  OK\n");
  EXPECT_THAT(Said(), HasSubstr("the same number of operations"));
}

TEST_F(LogsTest, RanksThatRasDoesNotReach) {
  const std::string table = "    0         1         2       3-4         8         7   RUNNING  INCOMPLETE\n\n";
  const std::string missing =
      "#0-0 (78db921d1c117b4a) INCOMPLETE\n  Missing communicator data from 1 rank\n"
      "  Rank 6 -- GPU 2 managed by process 165 on node node1\n\n";
  Put("ras.txt", table + missing);
  EXPECT_THAT(Said(), HasSubstr("rank 6 of its 8 (GPU 2, process 165 on node1) did not answer"));
  Put("ras.txt", table +
                     "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
                     "  Process 165 on node node1 managing GPU 2\n\n" +
                     missing);
  ExpectOnly(Told(), RANK_DEAD, {6});
  Put("ras.txt", table +
                     "#0-0 (78db921d1c117b4a) MISMATCH\n  Communicator ranks have different status\n"
                     "  7 ranks have status RUNNING\n  Rank 6 has status FINALIZE -- GPU 2 managed by process 165 on "
                     "node node1\n\n");
  EXPECT_THAT(Said(), HasSubstr("has status FINALIZE"));
}

// Each line of a log may claim a communicator of any size, and a list of members takes memory.
TEST_F(LogsTest, ListsOfMembersAreBoundedByTheLengthOfTheLog) {
  std::string log;
  constexpr int kComms = 100, kRanks = 4, kClaimed = 65536;
  for (int comm = 0; comm < kComms; ++comm) {
    for (int rank = 0; rank < kRanks; ++rank)
      absl::StrAppend(&log, "h1:", 900 + rank, ":950 [0] NCCL INFO ncclCommInitRank comm 0x",
                      absl::Hex(0x1000 + comm * kRanks + rank), " rank ", rank, " nranks ", kClaimed,
                      " cudaDev 0 nvmlDev 0 busId 1b000 commId 0x", absl::Hex(0x77 + comm), " - Init START\n");
  }
  Put("train.log", log);
  const Bundle bundle = Load();
  size_t listed = 0;
  for (const Communicator& comm : bundle.comms) listed += comm.members.size();
  EXPECT_GE(listed, static_cast<size_t>(kClaimed));
  EXPECT_LE(listed, size_t{5} * kClaimed);
}

}  // namespace
}  // namespace lockstep
