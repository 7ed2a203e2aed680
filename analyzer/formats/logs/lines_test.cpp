#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/logs/fingerprint.h"
#include "analyzer/formats/logs/json_line.h"
#include "analyzer/formats/logs/line.h"
#include "analyzer/formats/logs/nccl_info.h"
#include "analyzer/formats/logs/notices.h"
#include "analyzer/formats/logs/read_file.h"
#include "analyzer/formats/logs/stacks.h"
#include "analyzer/formats/logs/watchdog.h"
#include "analyzer/util/unique_fd.h"
#include "tests/support/files.h"

namespace lockstep::logs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LogLine, PrefixesOfLaunchersAreRemoved) {
  struct Case {
    const char* line;
    const char* text;
    int32_t rank, task, local;
  };
  for (const Case& c : {
           Case{"[rank3]:[E1120 x", "[E1120 x", 3, -1, -1},
           Case{"[default5]:[rank13]: a", "a", 13, -1, 5},
           Case{" 7: text", "text", -1, 7, -1},
           Case{"12: [rank9]:  File", " File", 9, 12, -1},
           Case{"[1,3]<stderr>:text", "text", -1, 3, -1},
           Case{"[3]<stderr>:text", "text", -1, 3, -1},
           Case{"[3]: text", "[3]: text", -1, -1, -1},
           Case{"[pod/job-2/main] [rank2]: text", "text", 2, -1, -1},
           Case{"worker-3  | text", "text", -1, -1, -1},
           Case{"(Worker pid=9, ip=10.0.0.1) text", "text", -1, -1, -1},
           Case{"[Rank 3] text", "[Rank 3] text", -1, -1, -1},
           Case{"[W1120 10:00] text", "[W1120 10:00] text", -1, -1, -1},
           Case{"2026: text", "text", -1, 2026, -1},
           Case{"12345678: text", "12345678: text", -1, -1, -1},
           Case{"[rank99999999999]: a", "a", -1, -1, -1},
           Case{"2026-11-20T10:00:00.123456+00:00 stderr F [rank2]: text", "text", 2, -1, -1},
           Case{"Nov 20 10:00:00 gpu007 torchrun[4007]: [rank2]:   text", "  text", 2, -1, -1},
           Case{"Nov  2 10:00:00 gpu007 python3[7]: text", "text", -1, -1, -1},
           Case{"10:00:00.123 Thread 7 [idle]: text", "Thread 7 [idle]: text", -1, -1, -1},
           Case{"node-3: [rank2]: text", "text", 2, -1, -1},
           Case{"10.0.0.3: text", "text", -1, -1, -1},
           Case{"botocore.S3UploadFailedError: x", "botocore.S3UploadFailedError: x", -1, -1, -1},
           Case{"Now 20 10:00:00 text", "Now 20 10:00:00 text", -1, -1, -1},
           Case{"", "", -1, -1, -1},
       }) {
    const Line line = TakePrefixes(c.line);
    EXPECT_EQ(line.text, c.text) << c.line;
    EXPECT_EQ(line.rank, c.rank) << c.line;
    EXPECT_EQ(line.task, c.task) << c.line;
    EXPECT_EQ(line.local, c.local) << c.line;
  }
}

TEST(LogLine, CollectedLinesContainTheProgramsText) {
  EXPECT_EQ(TextOfJsonLine(R"({"log":"[rank3]: a\"b\n","stream":"stderr","time":"2026-05-01T10:00:00Z"})"),
            "[rank3]: a\"b\n");
  EXPECT_EQ(TextOfJsonLine(R"({"insertId":"x","textPayload":"a"})"), "a");
  EXPECT_EQ(TextOfJsonLine(R"( {"_source":{"message":"a\nb"}})"), "a\nb");
  for (const char* other :
       {"", "{", "{}", "text", R"({"log":3})", R"({"loss":1.5})", R"([{"log":"a"}])", R"({"log":"a"} b)"})
    EXPECT_EQ(TextOfJsonLine(other), std::nullopt) << other;
}

TEST(LogLine, LinesOfAnyLengthAreReadInBoundedMemory) {
  const support::TempFolder folder;
  const std::string path = folder.path() + "/log";
  std::ofstream(path) << "one\r\n\n" << std::string(9u << 20, 'x') << "\nlast";
  const UniqueFd fd(open(path.c_str(), O_RDONLY));
  std::vector<std::string> lines;
  std::vector<int64_t> numbers;
  const absl::Status status = ForEachLine(
      fd.get(), [] { return true; },
      [&](std::string_view line, int64_t number) {
        lines.emplace_back(line);
        numbers.push_back(number);
      });
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "one");
  EXPECT_EQ(lines[2].size(), kMostLineBytes);
  EXPECT_EQ(lines[3], "last");
  EXPECT_THAT(numbers, ElementsAre(1, 2, 3, 4));
}

TEST(LogLine, ServersNumberTheirWorkers) {
  EXPECT_EQ(TakePrefixes("[2026-11-20 10:00:00 TP3] text").task, 3);
  EXPECT_EQ(TakePrefixes("[2026-11-20 10:00:00 TP3] text").text, "text");
  EXPECT_EQ(TakePrefixes("[2026-11-20 10:00:00 DP1 TP13 EP3] text").task, 13);
  EXPECT_EQ(TakePrefixes("[2026-11-20 10:00:00,123] text").text, "text");
  EXPECT_EQ(TakePrefixes("(VllmWorker rank=5 pid=77) text").task, 5);
  EXPECT_EQ(TakePrefixes("(Worker_TP2_EP2 pid=77) text").task, 2);
  // A tensor rank is not a rank if there are pipeline stages.
  EXPECT_EQ(TakePrefixes("[2026-11-20 10:00:00 PP1 TP3] text").task, -1);
  EXPECT_EQ(TakePrefixes("(TensorWorker pid=77) text").task, -1);
}

TEST(Watchdog, ErrorsThatEndedIt) {
  const std::string line =
      "[rank12]:[E817 17:40:34.2 ProcessGroupNCCL.cpp:1515] [PG 0 (default_pg) Rank 12] Process group ";
  const auto ended =
      ParseEndedWatchdog(line + "watchdog thread terminated with exception: CUDA error: uncorrectable ECC error");
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->error, "CUDA error: uncorrectable ECC error");
  EXPECT_EQ(ended->rank_of_whole, 12);
  EXPECT_EQ(
      ParseEndedWatchdog("[E x] [Rank 7] NCCL watchdog thread terminated with exception: NCCL error: a")->rank_of_whole,
      7);
  EXPECT_EQ(ParseEndedWatchdog("[E x] [PG ID 4 PG GUID 20(tp) Rank 1] Process group watchdog thread terminated with "
                               "exception: CUDA error: a")
                ->rank_of_whole,
            -1);
  EXPECT_FALSE(ParseEndedWatchdog(line +
                                  "watchdog thread terminated with exception: [Rank 12] Watchdog caught collective "
                                  "operation timeout: WorkNCCL(SeqNum=1)"));
  EXPECT_FALSE(ParseEndedWatchdog("terminated with exception"));
}

TEST(Watchdog, EachReleasesLines) {
  const auto timeout = ParseWatchdog(
      "[E x] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=_ALLGATHER_BASE, "
      "NumelIn=8, NumelOut=64, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.");
  ASSERT_TRUE(timeout);
  EXPECT_EQ(timeout->group, "");
  EXPECT_EQ(timeout->inside, 2);
  EXPECT_EQ(timeout->seq, 41);
  EXPECT_EQ(timeout->op, "_ALLGATHER_BASE");
  EXPECT_EQ(timeout->elements_in, 8);
  EXPECT_EQ(timeout->elements_out, 64);
  EXPECT_EQ(timeout->ran_ms, 600029);
  struct Case {
    const char* line;
    const char *group, *desc;
    int32_t inside;
    int64_t failed_at, enqueued, completed;
  };
  for (const Case& c : {
           Case{"[PG 1 Rank 6] Timeout at NCCL work: 7753, last enqueued NCCL work: 7755, last completed NCCL work: "
                "7752.",
                "1", "", 6, 7753, 7755, 7752},
           Case{"[PG 0 (default_pg) Rank 3] Timeout at NCCL work: 20, last enqueued NCCL work: 22, last completed NCCL "
                "work: 19.",
                "0", "default_pg", 3, 20, 22, 19},
           Case{"[PG ID 2 PG GUID 17(tp) Rank 1]  failure detected by watchdog at work sequence id: 1 PG status: last "
                "enqueued work: 547, last completed work: -1",
                "17", "tp", 1, 1, 547, kNone},
           Case{
               "[PG ID 0PG GUID 0 Rank 4] Exception (either an error or timeout) detected by watchdog at work: 5, last "
               "enqueued NCCL work: 5, last completed NCCL work: 4.",
               "0", "", 4, 5, 5, 4},
       }) {
    const auto line = ParseWatchdog(c.line);
    ASSERT_TRUE(line) << c.line;
    EXPECT_EQ(line->group, c.group) << c.line;
    EXPECT_EQ(line->desc, c.desc) << c.line;
    EXPECT_EQ(line->inside, c.inside) << c.line;
    EXPECT_EQ(line->failed_at, c.failed_at) << c.line;
    EXPECT_EQ(line->enqueued, c.enqueued) << c.line;
    EXPECT_EQ(line->completed, c.completed) << c.line;
  }
  const auto signal = ParseWatchdog(
      "[PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump signal due to a collective timeout from  rank 6 and we "
      "will try our best to dump the debug info. Last enqueued NCCL work: 30, last completed NCCL work: 30.This is");
  ASSERT_TRUE(signal);
  EXPECT_EQ(signal->signalled_by, 6);
  EXPECT_EQ(signal->completed, 30);
}

TEST(Watchdog, OtherLinesAreNotParsed) {
  for (const char* line : {"", "loss 2.1", "collective timeout from this local rank", "last enqueued work: x",
                           "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=-5)",
                           "last enqueued work: 99999999999999999999999, last completed work: -7"})
    EXPECT_FALSE(ParseWatchdog(line)) << line;
}

TEST(NcclInfo, CallsAndCommunicators) {
  const auto place = ParseNcclPlace("[2026-11-20] gpu-7:4021:4100 [5] NCCL INFO AllReduce: opCount 1a");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->host, "gpu-7");
  EXPECT_EQ(place->pid, 4021);
  EXPECT_EQ(place->gpu, 5);
  const auto call = ParseNcclCall(
      "AllReduce: opCount 1a sendbuff 0x7f recvbuff 0x80 count 64 datatype 9 op 2 root 0 comm 0x55ff [nranks=8] stream "
      "0x1");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->kind, ring::CallKind::kAllReduce);
  EXPECT_EQ(call->op_count, 26u);
  EXPECT_EQ(call->count, 64);
  EXPECT_EQ(call->datatype, 9);
  EXPECT_EQ(call->reduction, 2);
  EXPECT_EQ(call->comm, 0x55ffu);
  EXPECT_EQ(call->size, 8);
  const auto init = ParseNcclInit(
      "ncclCommInitRank comm 0x55ff rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 1b000 commId 0xfeed - Init COMPLETE");
  ASSERT_TRUE(init);
  EXPECT_EQ(init->rank, 3);
  EXPECT_EQ(init->size, 8);
  EXPECT_EQ(init->id, 0xfeedu);
  EXPECT_FALSE(ParseNcclPlace("NCCL INFO no host"));
  EXPECT_FALSE(ParseNcclCall("Launch mode Parallel"));
  EXPECT_FALSE(ParseNcclCall("AllReduce: opCount 1 count 5 comm 0x1 [nranks=0]"));
  EXPECT_FALSE(ParseNcclInit("comm 0x1 rank 9 nranks 8"));
}

TEST(NcclInfo, Warnings) {
  for (const char* line :
       {"n1:40:55 [1] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer n2<42830>",
        "n1:40:55 [1] misc/socket.cc:58 (Proxy Progress) NCCL WARN socketProgress: Connection closed by remote peer "
        "n2<42830>"}) {
    const auto place = ParseNcclPlace(line);
    ASSERT_TRUE(place) << line;
    EXPECT_TRUE(place->warning);
    EXPECT_EQ(place->pid, 40);
    EXPECT_EQ(place->gpu, 1);
    EXPECT_EQ(WarningOf(*place).text, "socketProgress: Connection closed by remote peer n2<42830>");
  }
  EXPECT_FALSE(ParseNcclPlace("saw NCCL WARN in the log"));
}

TEST(Fingerprints, TwoCallsAreRead) {
  const auto line = ParseFingerprints(
      "RuntimeError: Detected mismatch between collectives on ranks. Rank 2 is running collective: "
      "CollectiveFingerPrint(SequenceNumber=9, OpType=ALLREDUCE, TensorShape=[20, 10], TensorDtypes=Float, "
      "TensorDeviceTypes=TensorOptions(dtype=float (default))), but Rank 5 is running collective: "
      "CollectiveFingerPrint(SequenceNumber=9OpType=BARRIER).Collectives differ in the following aspects: \tOp type: "
      "ALLREDUCEvs BARRIER");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->own, 2);
  EXPECT_EQ(line->other, 5);
  EXPECT_EQ(line->own_call.seq, 9);
  EXPECT_EQ(line->own_call.elements, 200);
  EXPECT_EQ(line->own_call.dtype, "Float");
  EXPECT_EQ(line->other_call.op, "BARRIER");
  EXPECT_EQ(line->other_call.elements, -1);
  EXPECT_FALSE(ParseFingerprints("Detected mismatch between collectives on ranks. Rank 2 is running"));
}

TEST(Fingerprints, OlderReleasesPrintOnlyTheRanksOwnCall) {
  const auto line = ParseFingerprints(
      "RuntimeError: Detected mismatch between collectives on ranks. Rank 3 is running inconsistent collective: "
      "CollectiveFingerPrint(OpType=BROADCAST, TensorShape=[34112], TensorDtypes=Float)");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->own, 3);
  EXPECT_EQ(line->other, -1);
  EXPECT_EQ(line->own_call.elements, 34112);
}

TEST(Fingerprints, ModelsThatDiffer) {
  const auto line = ParseFingerprints(
      "RuntimeError: DDP expects same model across all ranks, but Rank 5 has 128 params, while rank 0 has inconsistent "
      "1506656875 params.");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->own, 5);
  EXPECT_EQ(line->other, 0);
  EXPECT_EQ(line->own_call.elements, 128);
  EXPECT_EQ(line->other_call.elements, 1506656875);
  EXPECT_FALSE(ParseFingerprints("DDP expects same model across all ranks, but Rank 5 has"));
}

TEST(Fingerprints, BarriersOfTheStore) {
  const auto waits = ParseStoreBarrier(
      "Waiting in store based barrier to initialize process group for rank: 2, key: store_based_barrier_key:1 "
      "(world_size=8, worker_count=7, timeout=0:30:00)");
  ASSERT_TRUE(waits);
  EXPECT_EQ(waits->rank, 2);
  EXPECT_EQ(waits->size, 8);
  EXPECT_EQ(waits->count, 7);
  EXPECT_EQ(waits->key, "1");
  EXPECT_FALSE(waits->passed);
  const auto passed =
      ParseStoreBarrier("Rank 2: Completed store-based barrier for key:store_based_barrier_key:1 with 8 nodes.");
  ASSERT_TRUE(passed);
  EXPECT_TRUE(passed->passed);
  EXPECT_EQ(passed->key, "1");
  EXPECT_FALSE(ParseStoreBarrier("Added key: store_based_barrier_key:1 to store for rank: 2"));
}

TEST(Fingerprints, Barriers) {
  EXPECT_THAT(ParseBarrier("RuntimeError: [Rank 0]: Ranks 2, 5 failed to pass monitoredBarrier in 2000 ms")->missing,
              ElementsAre(2, 5));
  EXPECT_THAT(ParseBarrier("[E x] [Rank 0]: Rank 7 failed to pass monitoredBarrier in 2000 ms")->missing,
              ElementsAre(7));
  EXPECT_EQ(ParseBarrier("Rank 3 successfully reached monitoredBarrier, but received errors while waiting")->arrived,
            std::vector<int32_t>{3});
  // The report of TORCH_NCCL_DESYNC_DEBUG.
  EXPECT_THAT(ParseBarrier("   - [2, 5] finished collective #8, but didn't join collective #9 (count from 1)")->missing,
              ElementsAre(2, 5));
  EXPECT_THAT(ParseBarrier("     [0, 1] started allreduce")->arrived, ElementsAre(0, 1));
  EXPECT_FALSE(ParseBarrier("[trainer] started 8 workers"));
  for (const char* line : {"monitoredBarrier", "Ranks x failed to pass monitoredBarrier",
                           "failed to pass monitoredBarrier", "Rank -1 failed to pass monitoredBarrier"})
    EXPECT_FALSE(ParseBarrier(line)) << line;
}

std::vector<PrintedStack> StacksIn(const std::vector<std::string>& lines) {
  StackReader reader;
  int64_t number = 0;
  for (const std::string& line : lines) {
    const Line taken = TakePrefixes(line);
    reader.Take(taken.text, taken.rank, taken.local, ++number);
  }
  return reader.Finish();
}

TEST(PythonStacks, TheMainThreadOfPySpy) {
  const auto stacks = StacksIn({"Process 31: python train.py --rank 4", "Python v3.12.1 (/usr/bin/python3.12)", "",
                                "Thread 40 (idle): \"Thread-1\"", "    wait (threading.py:331)",
                                "Thread 31 (active+gil): \"MainThread\"", "    step (train.py:12)",
                                "        Arguments:", "            x: 1", "    main (train.py:40)", ""});
  ASSERT_EQ(stacks.size(), 1u);
  EXPECT_THAT(stacks[0].frames, ElementsAre("step (train.py:12)", "main (train.py:40)"));
  EXPECT_EQ(stacks[0].rank, 4);
  EXPECT_EQ(stacks[0].pid, 31);
}

TEST(PythonStacks, TheMainThreadOfFaulthandlerAndItsLastDump) {
  const std::vector<std::string> dump = {"Thread 0x00007f01 (most recent call first):",
                                         "  File \"/usr/lib/python3.11/threading.py\", line 320 in wait",
                                         "  File \"/usr/lib/python3.11/threading.py\", line 1002 in _bootstrap",
                                         "",
                                         "Thread 0x00007f02 (most recent call first):",
                                         "  File \"/app/train.py\", line 88 in step",
                                         "  File \"/app/train.py\", line 140 in <module>"};
  std::vector<std::string> lines = dump;
  lines.insert(lines.end(), dump.begin(), dump.end());
  lines[lines.size() - 2] = "  File \"/app/train.py\", line 91 in step";
  const auto stacks = StacksIn(lines);
  ASSERT_EQ(stacks.size(), 1u);
  EXPECT_THAT(stacks[0].frames, ElementsAre("step (/app/train.py:91)", "<module> (/app/train.py:140)"));
}

TEST(PythonStacks, LinesOfRanksMayBeMixed) {
  const auto stacks =
      StacksIn({"[rank0]: Thread 0x01 (most recent call first):", "[rank1]: Thread 0x01 (most recent call first):",
                "[rank0]:   File \"a.py\", line 1 in f", "[rank1]:   File \"a.py\", line 2 in f"});
  ASSERT_EQ(stacks.size(), 2u);
  EXPECT_THAT(stacks[0].frames, ElementsAre("f (a.py:1)"));
  EXPECT_THAT(stacks[1].frames, ElementsAre("f (a.py:2)"));
}

TEST(PythonStacks, HeadingsNameTheirRank) {
  const support::TempFolder folder;
  const std::string path = folder.path() + "/stacks.txt";
  std::string text;
  for (const char* heading : {"======== rank 0 ========", "Rank 3:", "[rank7]",
                              "== node1 rank=8 pid=12 ==", "--- rank 9 (node1, pid 13) ---"})
    text += absl::StrCat(heading,
                         "\nThread 9 (idle): \"MainThread\"\n    barrier (torch/distributed/c10d.py:3)\n"
                         "    <module> (train.py:3)\n\n");
  // A program may print its rank. A stack that follows much later does not belong to that rank.
  text += "rank 4 waits\nrank: 5\n";
  for (int step = 0; step < 20; ++step) text += absl::StrCat("step ", step, "\n");
  text += "Thread 9 (idle): \"MainThread\"\n    barrier (torch/distributed/c10d.py:3)\n    <module> (train.py:3)\n\n";
  std::ofstream(path) << text;
  FileFacts facts;
  ASSERT_TRUE(ReadFile(
                  path, [] { return true; }, &facts)
                  .ok());
  std::vector<int32_t> ranks;
  for (const PrintedStack& stack : facts.stacks) ranks.push_back(stack.rank);
  EXPECT_THAT(ranks, ::testing::UnorderedElementsAre(-1, 0, 3, 7, 8, 9));
}

TEST(PythonStacks, TracebacksOfExceptionsAreNoStacks) {
  EXPECT_THAT(StacksIn({"Traceback (most recent call last):", "  File \"a.py\", line 1, in f", "    f()"}), IsEmpty());
}

// As printed by gdb 13, with an inlined frame and a name with template arguments.
TEST(NativeStacks, TheMainThreadOfGdb) {
  const std::vector<std::string> dump = {
      "[New LWP 32340]",
      "__GI___libc_read (nbytes=1, buf=0x7fff, fd=3) at ../sysdeps/unix/sysv/linux/read.c:26",
      "",
      "Thread 2 (Thread 0x7f3f9e9be6c0 (LWP 32340) \"cuda-EvtHandlr\"):",
      "#0  0x00007f3f9ea95df2 in __libc_pause () at ../sysdeps/unix/sysv/linux/pause.c:29",
      "#1  0x00007f3f9eacb8ec in clone3 () at ../sysdeps/unix/sysv/linux/x86_64/clone3.S:81",
      "",
      "Thread 1 (Thread 0x7f3f9e9bf740 (LWP 32338) \"python3\"):",
      "#0  __GI___libc_read (nbytes=1, buf=0x7fff, fd=3) at ../sysdeps/unix/sysv/linux/read.c:26",
      "#1  0x00007f12 in ?? () from /lib/x86_64-linux-gnu/libcuda.so.1",
      "#2  0x00007f13 in std::function<void (int)>::operator()(int) const (this=0x1, __args#0=2) at f.h:590",
      "#3  0x000055fef8aa21da in main () at t.c:6",
      "[Inferior 1 (process 32338) detached]"};
  std::vector<std::string> lines = dump;
  for (std::string line : dump) {  // of another process
    if (const size_t at = line.find("3233"); at != std::string::npos) line.replace(at, 4, "4233");
    lines.push_back(line);
  }
  const auto stacks = StacksIn(lines);
  ASSERT_EQ(stacks.size(), 2u);
  EXPECT_THAT(stacks[0].frames,
              ElementsAre("__GI___libc_read (read.c:26)", "?? (libcuda.so.1)",
                          "std::function<void (int)>::operator()(int) const (f.h:590)", "main (t.c:6)"));
  EXPECT_TRUE(stacks[0].native);
  EXPECT_EQ(stacks[0].pid, 32338);
  EXPECT_EQ(stacks[1].pid, 42338);
  // If the main thread is missing or has a gap, the process's place is unknown.
  EXPECT_THAT(StacksIn({dump.begin(), dump.begin() + 6}), IsEmpty());
  lines = dump;
  lines.erase(lines.begin() + 9);
  EXPECT_THAT(StacksIn(lines), IsEmpty());
}

TEST(NativeStacks, TheMainThreadOfEuStack) {
  const auto stacks = StacksIn({"PID 4003 - process", "TID 4003:", "#0  0x00007f3a1b2c3d4e read - /usr/lib64/libc.so.6",
                                "#1  0x00007f3a1b2c3d4f - /usr/lib64/libcuda.so.1", "#2  0x0000000000401136 main",
                                "TID 4009:", "#0  0x00007f3a1b2c3d50 __poll"});
  ASSERT_EQ(stacks.size(), 1u);
  EXPECT_EQ(stacks[0].pid, 4003);
  EXPECT_THAT(stacks[0].frames, ElementsAre("read (libc.so.6)", "?? (libcuda.so.1)", "main"));
}

TEST(Notices, SchedulersNameHosts) {
  NoticeReader reader;
  EXPECT_EQ(reader.Take("srun: error: Node failure on gpu07")->host, "gpu07");
  EXPECT_EQ(reader.Take("llm-worker-3   0/1     OOMKilled   0          42m")->host, "llm-worker-3");
  EXPECT_FALSE(reader.Take("Name:             llm-worker-1"));
  EXPECT_EQ(reader.Take("      Reason:       OOMKilled")->text, "llm-worker-1: OOMKilled");
  EXPECT_TRUE(
      reader.Take("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been"));
  // The line names its writer's host, not the host that failed.
  EXPECT_EQ(reader
                .Take("slurmstepd: error: *** STEP 7.0 ON gpu01 CANCELLED AT 2026-11-20T10:10:10 DUE TO NODE FAILURE, "
                      "SEE SLURMCTLD LOG FOR DETAILS ***")
                ->host,
            "");
  EXPECT_FALSE(reader.Take("step 3 | loss 2.3"));
  EXPECT_FALSE(reader.Take("OOMKilled")->pid);
}

TEST(PythonStacks, PySpyJson) {
  const auto stack = ReadPySpyJson(
      R"([{"pid": 9, "thread_id": 1, "thread_name": "Thread-1", "frames": [{"name": "wait", "filename": "t.py", "line": 3}]},
          {"pid": 9, "thread_id": 2, "thread_name": "MainThread", "frames": [{"name": "f", "filename": "m.py", "line": 5}],
           "process_info": {"command_line": "python -m serve --rank=6"}}])");
  ASSERT_TRUE(stack.ok()) << stack.status();
  EXPECT_THAT(stack->frames, ElementsAre("f (m.py:5)"));
  EXPECT_EQ(stack->rank, 6);
  for (const std::string& bad : {std::string("[{\"pid\""), std::string("{}"), std::string("[1, null, {\"frames\": 3}]"),
                                 std::string(100'000, '[')})
    EXPECT_FALSE(ReadPySpyJson(bad).ok());
}

}  // namespace
}  // namespace lockstep::logs
