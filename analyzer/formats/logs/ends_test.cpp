// Tests which process ended first, according to logs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/logs/exceptions.h"
#include "analyzer/formats/logs/launcher.h"
#include "analyzer/report/report.h"
#include "analyzer/testing/log_folder.h"

namespace lockstep {
namespace {

using ::lockstep::testing::ExpectOnly;
using ::lockstep::testing::LogsTest;
using ::lockstep::testing::Of;
using ::lockstep::testing::Show;
using ::lockstep::testing::TimedOut;
using ::testing::HasSubstr;

class EndsTest : public LogsTest {};

constexpr char kClosed[] =
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:561] Connection closed by peer "
    "[127.0.0.1]:35557. This is typically caused by a remote worker crashing.";

// Returns an exception as torchrun prints it: a blank follows the prefix.
std::string Ended(int rank, const std::string& exception, const std::string& file = "/app/train.py") {
  std::string text;
  for (const std::string& line :
       {std::string("Traceback (most recent call last):"), absl::StrCat("  File \"", file, "\", line 20, in step"),
        std::string("    step()"), exception})
    absl::StrAppend(&text, Of(rank), " ", line, "\n");
  return text;
}

// Returns the end of torchrun's report: `first` failed with a status, and torchrun ended the others.
std::string Report(int first, int code, const std::vector<int>& terminated) {
  const auto worker = [](int rank, int exit_code) {
    return absl::StrCat("  time      : 2026-11-27_17:46:04\n  host      : localhost\n  rank      : ", rank,
                        " (local_rank: ", rank, ")\n  exitcode  : ", exit_code, " (pid: ", 3956 + rank,
                        ")\n  error_file: <N/A>\n");
  };
  std::string text = "Failures:\n";
  int number = 1;
  for (const int rank : terminated) absl::StrAppend(&text, "[", number++, "]:\n", worker(rank, -15));
  return absl::StrCat(text, "----\nRoot Cause (first observed failure):\n[0]:\n", worker(first, code), "====\n");
}

// Rank 0 exited with status 0. torchrun names the first rank that lost its connection to rank 0.
TEST_F(EndsTest, ARankThatExitedSilentlyIsFoundByLostConnections) {
  Put("log", Ended(2, kClosed) + Ended(1, kClosed) + Report(1, 1, {2}));
  ExpectOnly(Told(), RANK_NO_DATA, {0});
}

// torchrun prints times in seconds, and lists failures that it sees at once in the order of ranks.
TEST_F(EndsTest, OneOfSeveralRanksThatFailedAlikeAtOnceIsNotNamed) {
  std::string report = Report(0, 1, {1});
  report.replace(report.find("exitcode  : -15"), 15, "exitcode  : 1");
  Put("log", report);
  EXPECT_THAT(Said(), HasSubstr("torchrun saw 2 ranks fail alike within one second"));
  Put("log", Ended(0, "KeyError: 'lr'") + Ended(1, "KeyError: 'lr'") + Report(0, 1, {}));
  EXPECT_THAT(Said(), HasSubstr("several ranks ended with an exception"));
}

// The file's name ends in the number of a host.
TEST_F(EndsTest, TheFileOfALauncherIsNoRanksFile) {
  Put("node-1.log", Report(3, -9, {}) + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n");
  Put("node-2.log", TimedOut(4, 5) + TimedOut(5, 5));
  ExpectOnly(Told(), RANK_DEAD, {3});
}

// torchrun ended rank 3 before rank 3 could print anything, so rank 3 was still alive.
TEST_F(EndsTest, ARankThatTheLauncherEndedDidNotEndFirst) {
  Put("log", Ended(2, kClosed) + Ended(1, kClosed) + Report(1, 1, {2, 3}));
  ExpectOnly(Told(), RANK_NO_DATA, {0});
}

TEST_F(EndsTest, SeveralSilentRanksNameNobody) {
  Put("log", "world_size=5\n" + Ended(2, kClosed) + Ended(1, kClosed));
  EXPECT_THAT(Said(), HasSubstr("ranks ended because others were gone"));
}

// gloo aborts a rank that receives more than it expects. Either side of the connection may have made the wrong call.
TEST_F(EndsTest, ARankThatGlooAbortedForADifferentSizeIsNotNamed) {
  const std::string aborted =
      "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at "
      "/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:464] op.preamble.length <= op.nbytes. 64 vs 32. Received "
      "data size doesn't match expected size.\n";
  Put("log", "world_size=4\n" + aborted + Ended(1, kClosed) + Ended(3, kClosed) + Report(2, -6, {0, 1, 3}));
  EXPECT_THAT(Said(), HasSubstr("one received 64 bytes from a peer, and its own call expects 32"));
}

// torchrun lists the rank that failed first only at the end.
TEST_F(EndsTest, TheFirstToFailIsARankOfTheJob) {
  Put("log", Ended(0, kClosed) + Ended(2, kClosed) + Report(3, -6, {0, 1, 2}));
  ExpectOnly(Told(), RANK_NO_DATA, {3});
}

// No rank ended before the timeout, so each traceback shows where its rank waited.
TEST_F(EndsTest, AfterATimeoutTracebacksShowWhereRanksWaited) {
  const std::string late =
      "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out "
      "waiting 45000ms for recv operation to complete";
  for (const std::string& last : {late, std::string(kClosed)}) {
    Put("log", "world_size=4\n" + Ended(1, kClosed) + Ended(3, kClosed) + Ended(2, last) +
                   Ended(0, last, "/app/evaluate.py") + Report(1, 1, {}));
    if (last == kClosed) {
      const std::string said = Said();
      EXPECT_THAT(said, HasSubstr("ranks ended because others were gone"));
      EXPECT_THAT(said, HasSubstr("RuntimeError: Connection closed by peer"));
      continue;
    }
    const Verdict verdict = Told();
    ExpectOnly(verdict, RANK_NOT_ARRIVED, {0});
    EXPECT_LE(verdict.findings(0).confidence(), 0.75);
    EXPECT_THAT(verdict.findings(0).summary(), HasSubstr("step() at evaluate.py:20"));
  }
}

// Before a job has a process group, PyTorch prints no rank.
TEST_F(EndsTest, AnExitMayFollowFromATracebackWithoutARank) {
  std::string log;
  for (int i = 0; i < 3; ++i)
    log +=
        "Traceback (most recent call last):\n  File \"/app/train.py\", line 5, in <module>\n"
        "torch.distributed.DistStoreError: wait timeout after 45000ms, keys: /default_pg/0//cpu//0/2\n";
  log +=
      "Traceback (most recent call last):\n  File \"/torch/distributed/run.py\", line 1142, in main\n"
      "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n";
  Put("log", log + Report(0, 1, {2}));
  EXPECT_THAT(Said(), HasSubstr("DistStoreError: wait timeout after 45000ms, keys: /default_pg/0//cpu//0/2"));
}

// The process that serves the store counts the ranks that joined.
TEST_F(EndsTest, ARankThatNeverJoinedIsNamed) {
  const std::string frame = "  File \"/lib/torch/distributed/distributed_c10d.py\", line 9, in init_process_group\n";
  const std::string begin = "Traceback (most recent call last):\n" + frame;
  Put("rank_0.log", begin +
                        "torch.distributed.DistStoreError: Timed out after 46 seconds waiting for clients. 3/4 "
                        "clients joined.\n");
  for (const char* name : {"rank_1.log", "rank_2.log"})
    Put(name, begin + "torch.distributed.DistStoreError: wait timeout after 45000ms, keys: /0\n");
  ExpectOnly(Told(), RANK_NO_DATA, {3});
}

TEST_F(EndsTest, AnExceptionOfItsOwnComesBeforeThoseOfOthers) {
  Put("log", Ended(2, kClosed) + Ended(1, "KeyError: 'input_ids'") + Ended(0, kClosed) + Report(2, 1, {}));
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_DEAD, {1});
  EXPECT_THAT(verdict.findings(0).summary(), HasSubstr("died of an exception: KeyError: 'input_ids'"));
  EXPECT_THAT(verdict.findings(0).place(), HasSubstr("step (app/train.py:20)"));
}

TEST_F(EndsTest, ARankThatRaisedAfterItsCallsDied) {
  std::string log;
  for (int rank = 0; rank < 4; ++rank) {
    for (int call = 0; call < (rank == 2 ? 3 : 4); ++call)
      absl::StrAppend(&log, "h1:", 900 + rank, ":950 [", rank, "] NCCL INFO AllReduce: opCount ", call,
                      " sendbuff 0x1 recvbuff 0x2 count 6 datatype 7 op 0 root 0 comm 0x5 [nranks=4] stream 0x3\n");
  }
  Put("log", log + Ended(2, "ValueError: loss is NaN"));
  ExpectOnly(Told(), RANK_DEAD, {2});
}

TEST_F(EndsTest, AChainShowsItsFirstException) {
  std::string log = Ended(1, "KeyError: 'a'");
  absl::StrAppend(&log, Of(1), " \n", Of(1), " During handling of the above exception, another exception occurred:\n",
                  Of(1), " \n", Ended(1, "RuntimeError: no such option", "/app/main.py"));
  Put("log", log);
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_DEAD, {1});
  EXPECT_THAT(verdict.findings(0).summary(), HasSubstr("RuntimeError: no such option (after KeyError: 'a')"));
  EXPECT_THAT(verdict.findings(0).place(), HasSubstr("app/train.py:20"));
}

// An exception that the program raised because of a lost connection is a consequence, too.
TEST_F(EndsTest, AChainThatBeginsWithALostConnectionIsAConsequence) {
  std::string log = Ended(1, kClosed);
  absl::StrAppend(&log, Of(1), " The above exception was the direct cause of the following exception:\n",
                  Ended(1, "app.TrainingFailed: step 7"));
  Put("log", log);
  Said();
}

TEST_F(EndsTest, ATracebackThatIsCutOffMayBeTheFirst) {
  const std::string whole = Ended(0, "ValueError: a");
  Put("log", whole.substr(whole.find('\n') + 1) + Ended(1, "ValueError: a"));
  EXPECT_THAT(Said(), HasSubstr("several ranks ended with an exception"));
  Put("log", Ended(1, "ValueError: a") + whole.substr(0, whole.rfind("[rank0]")));
  Said();
}

TEST_F(EndsTest, LaunchersNameTheFirstRank) {
  for (const char* report :
       {"mpirun noticed that process rank 2 with PID 4711 on node gpu07 exited on signal 9 (Killed).\n",
        "prterun noticed that process rank 2 with PID 4711 on node gpu07 exited on\nsignal 9 (Killed).\n",
        "srun: error: n1: task 2: Killed\nsrun: Terminating StepId=7.0\nsrun: error: n1: task 0: Killed\n",
        "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGKILL\n",
        "world_size=3\nWARNING: Sending process 811 closing signal SIGTERM\nWARNING: Sending process 813 closing "
        "signal "
        "SIGTERM\nERROR: failed (exitcode: -9) local_rank: 2 (pid: 812) of binary: /usr/bin/python\n",
        "[0]<stderr>:step 7\n[2]<stderr>:Killed\n[0]<stderr>:Aborted (core dumped)\n",
        "[rank: 2] Child process with PID 13117 terminated with code -9. Forcefully terminating all other processes\n",
        "[2026-11-20 10:01:40,620] [ERROR] [launch.py:325] ['python', '-u', 'train.py', '--local_rank=2'] exits with "
        "return code = -9\n"}) {
    Put("log", report);
    const Verdict verdict = Told();
    ExpectOnly(verdict, RANK_DEAD, {2});
    EXPECT_THAT(Show(verdict), HasSubstr("SIGKILL")) << report;
  }
  Put("log",
      "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. "
      "The first process to do so was:\n\n  Process name: [[47834,1],2]\n  Exit code:    3\n------\n");
  ExpectOnly(Told(), RANK_DEAD, {2});
}

// The scheduler may have killed all tasks.
TEST_F(EndsTest, TasksThatWereKilledAlikeNameNobody) {
  Put("log", "srun: error: n1: task 2: Killed\nsrun: error: n2: task 5: Killed\nsrun: error: n1: tasks 0-1: Killed\n");
  EXPECT_THAT(Said(), HasSubstr("srun reported that task 2 was killed (SIGKILL), and 2 more in the same way"));
}

// A GPU's error ends the watchdog's thread, which aborts the process.
TEST_F(EndsTest, AnErrorThatEndedAWatchdogEndedTheRank) {
  const std::string ended = Of(2) +
                            "[E817 17:40:34.2 ProcessGroupNCCL.cpp:1515] [PG 0 (default_pg) Rank 2] Process group "
                            "watchdog thread terminated with exception: ";
  for (const std::string& report : {std::string(), Report(2, -6, {0, 1, 3})}) {
    Put("log", ended + "CUDA error: an illegal memory access was encountered\n" + report);
    const Verdict verdict = Told();
    ExpectOnly(verdict, RANK_DEAD, {2});
    EXPECT_THAT(verdict.findings(0).summary(), HasSubstr("CUDA error: an illegal memory access was encountered"));
  }
  Put("log", ended + "NCCL error: remote process exited or there was a network error, NCCL version 2.21.5\n");
  EXPECT_THAT(Said(), HasSubstr("ranks ended because others were gone"));
}

TEST_F(EndsTest, AWarningAboutItsOwnGpuComesBeforeLostConnections) {
  const std::string own = "n1:43:99 [1] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n";
  const auto closed = [](int rank) {
    return absl::StrCat("n1:", 42 + rank, ":99 [", rank,
                        "] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n1<51159>\n");
  };
  Put("rank_0.log", closed(0));
  Put("rank_1.log", own);
  Put("rank_2.log", closed(2));
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_DEAD, {1});
  EXPECT_THAT(verdict.findings(0).summary(), HasSubstr("Cuda failure 'out of memory'"));
  Put("rank_2.log", "n1:44:99 [2] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n");
  EXPECT_THAT(Said(), HasSubstr("NCCL warned, about ranks 1, 2: Cuda failure 'out of memory'"));
}

TEST_F(EndsTest, AnExceptionWithoutALabelIsThatOfTheOnlyRankThatDidNotWait) {
  const std::string exception =
      "Traceback (most recent call last):\n  File \"/app/train.py\", line 7, in step\ntorch.cuda.OutOfMemoryError: "
      "CUDA out "
      "of memory.\n";
  Put("log", exception + TimedOut(0, 9) + TimedOut(1, 9) + TimedOut(3, 9));
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_DEAD, {2});
  EXPECT_THAT(verdict.findings(0).summary(), HasSubstr("CUDA out of memory"));
  Put("log", "world_size=5\n" + exception + TimedOut(0, 9) + TimedOut(1, 9) + TimedOut(3, 9));
  const Verdict unclear = Told();
  for (const Finding& finding : unclear.findings()) EXPECT_NE(finding.kind(), RANK_DEAD);
}

TEST_F(EndsTest, WorkersOfVllm) {
  Put("log",
      "(EngineCore_DP0 pid=77) ERROR 10-01 13:54:43 [multiproc_executor.py:154] Worker proc VllmWorker-2 died "
      "unexpectedly, shutting down executor.\n");
  ExpectOnly(Told(), RANK_DEAD, {2});
  std::string log;
  for (const char* line :
       {"Traceback (most recent call last):", "  File \"/vllm/executor.py\", line 666, in worker_busy_loop",
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"})
    absl::StrAppend(&log, "(Worker_TP2 pid=81) ERROR 10-01 13:54:43 [multiproc_executor.py:671] ", line, "\n");
  Put("log", log);
  ExpectOnly(Told(), RANK_DEAD, {2});
  Put("log",
      "ERROR 07-01 13:54:43 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 1159 died, exit code: -9\n");
  EXPECT_THAT(Said(), HasSubstr("the launcher saw process 1159 fail (signal 9), and no line shows its rank"));
}

// Loggers label only the first line of a message.
TEST_F(EndsTest, ATracebackBelongsToTheLabelOfItsFirstLine) {
  Put("log",
      "[2026-11-20 10:00:00 TP3] Scheduler hit an exception: Traceback (most recent call last):\n  File "
      "\"/sglang/scheduler.py\", line 7, in run\n    self.run()\nRuntimeError: CUDA error: uncorrectable ECC error\n");
  ExpectOnly(Told(), RANK_DEAD, {3});
}

TEST_F(EndsTest, ALocalRankIsARankOnlyIfTheJobHasOneHost) {
  const std::string failed =
      "WARNING: Sending process 811 closing signal SIGTERM\nERROR: failed (exitcode: -9) local_rank: 1 (pid: 812) of "
      "binary: "
      "/usr/bin/python\n";
  Put("log", "world_size=2\n" + failed);
  ExpectOnly(Told(), RANK_DEAD, {1});
  for (const std::string& size : {std::string(), std::string("world_size=16\n")}) {
    Put("log", size + failed);
    EXPECT_THAT(Said(),
                HasSubstr("torchrun saw local rank 1 of a host fail first (PID 812, signal 9). If the job has one "
                          "host, this is rank 1"));
  }
}

TEST_F(EndsTest, TheShellShowsHowARankEnded) {
  for (const char* end : {"Killed", "Segmentation fault (core dumped)", "Bus error (core dumped)"}) {
    Put("rank_0.log", "step 7\n");
    Put("rank_1.log", absl::StrCat("step 7\n", end, "\n"));
    Put("rank_2.log", "step 7\nAborted (core dumped)\n");
    ExpectOnly(Told(), RANK_DEAD, {1});
  }
  // A launcher kills the remaining processes.
  Put("rank_1.log", "step 7\nKilled\n");
  Put("rank_2.log", "step 7\nKilled\n");
  EXPECT_THAT(Said(), HasSubstr("the shell reported, about ranks 1, 2: Killed"));
}

// Returns NCCL's lines about the creation of a communicator of four ranks.
std::string Created(int rank, const std::string& host, int pid, int bus) {
  std::string text;
  for (const char* what : {"START", "COMPLETE"})
    absl::StrAppend(&text, host, ":", pid, ":", pid + 9, " [", rank % 2, "] NCCL INFO ncclCommInitRankConfig comm 0x",
                    absl::Hex(0x700 + rank), " rank ", rank, " nranks 4 cudaDev ", rank % 2, " nvmlDev ", rank % 2,
                    " busId ", absl::Hex(bus), "000 commId 0xfeed - Init ", what, "\n");
  return text;
}

// Ranks 0 and 1 are processes 40 and 41 on n1; ranks 2 and 3 are processes 40 and 41 on n2.
TEST_F(EndsTest, TheKernelsLogNamesAProcessOfTheJob) {
  std::string log;
  for (int rank = 0; rank < 4; ++rank) log += Created(rank, rank < 2 ? "n1" : "n2", 40 + rank % 2, 0x1b + rank % 2);
  const std::string killed = "Memory cgroup out of memory: Killed process 41 (python3) total-vm:123kB\n";
  Put("train.log", log);
  Put("kern.log", "Nov 20 10:11:12 n2 kernel: " + killed);
  const Verdict verdict = Told();
  ExpectOnly(verdict, RANK_DEAD, {3});
  EXPECT_THAT(Show(verdict), HasSubstr("SIGKILL"));
  // The line does not show which host the process is on.
  Put("kern.log", "[123.456789] " + killed);
  EXPECT_THAT(Said(), HasSubstr("the kernel reported, about ranks 1, 3: Memory cgroup out of memory"));
  // Lines about a process on another host, or about one outside the job, name no rank.
  Put("kern.log", "Nov 20 10:11:12 n3 kernel: " + killed + "Nov 20 10:11:12 n2 kernel: Killed process 7 (sshd)\n");
  Said();
  // A line about a GPU.
  Put("kern.log", "Nov 20 10:11:12 n2 kernel: NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.\n");
  EXPECT_THAT(Said(), HasSubstr("the kernel reported, about rank 2: NVRM: Xid"));
  // The same process, as torchrun and bash report it.
  Put("kern.log", "");
  for (const char* words :
       {"E1120 10:10:00.1 39 api.py:869] failed (exitcode: -11) local_rank: 1 (pid: 43) of binary: python\n",
        "slurm_script: line 28: 43 Segmentation fault      python3 train.py\n"}) {
    Put("train.log",
        Created(0, "n1", 42, 1) + Created(1, "n1", 43, 2) + Created(2, "n1", 44, 3) + Created(3, "n1", 45, 4) + words);
    ExpectOnly(Told(), RANK_DEAD, {1});
  }
}

TEST_F(EndsTest, WarningsOfNcclNameTheirRank) {
  Put("train.log", Created(0, "n1", 42, 1) + Created(1, "n1", 43, 2) +
                       "\nn1:43:99 [1] misc/socket.cc:58 NCCL WARN "
                       "socketProgress: Connection closed by remote peer n2<42830>\nsrun: error: Node failure on n1\n");
  const std::string said = Said();
  EXPECT_THAT(said, HasSubstr("NCCL warned, about rank 1: socketProgress: Connection closed by remote peer n2<42830>"));
  EXPECT_THAT(said, HasSubstr("the scheduler reported, about ranks 0, 1: srun: error: Node failure on n1"));
}

TEST_F(EndsTest, ALocalRankOfSeveralHostsNamesNobody) {
  std::string log = "world_size=16\n";
  for (int local = 0; local < 8; ++local) absl::StrAppend(&log, "[default", local, "]:step 3\n");
  Put("log", log + "['python', '--local_rank=2'] exits with return code = -9\n");
  EXPECT_EQ(Told().findings_size(), 0);
}

// There is one file for each host: its number and the local ranks in it are not ranks of the job.
TEST_F(EndsTest, FilesOfHostsAreNoFilesOfRanks) {
  for (int node = 0; node < 3; ++node) {
    std::string log;
    for (int local = 0; local < 4; ++local) absl::StrAppend(&log, "[default", local, "]:step 3\n");
    if (node == 1)
      for (const char* line :
           {"Traceback (most recent call last):", "  File \"/app/a.py\", line 3, in f", "ValueError: a"})
        absl::StrAppend(&log, "[default2]:", line, "\n");
    Put(absl::StrCat("node", node, ".log"), log);
  }
  EXPECT_THAT(Said(), HasSubstr("no line shows its rank"));
}

TEST_F(EndsTest, TheFirstScreenShowsWhereAnExceptionWasRaised) {
  Put("log", Ended(1, "KeyError: 'input_ids'"));
  const Bundle bundle = Load();
  const Verdict verdict = Analyze(bundle);
  EXPECT_THAT(VerdictText(verdict, bundle, {}), HasSubstr("rank 1, in step() at train.py:20, died of an exception"));
  for (const NotSeen& not_seen : verdict.not_seen()) EXPECT_NE(not_seen.kind(), NotSeen::CALLS_BY_STACKS);
}

TEST(Exceptions, TypesAndTextsOfPyTorchIdentifyErrorsOfOtherProcesses) {
  for (const char* text :
       {"torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, remote process exited or there "
        "was a network error, NCCL version 2.27.5",
        "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
        "torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//cuda//0",
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 1 got signal: 15",
        "RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv "
        "from rank 0.",
        "RuntimeError: Broken pipe", "KeyboardInterrupt", kClosed})
    EXPECT_TRUE(logs::IsOfOthers(text, "")) << text;
  for (const char* text : {"ValueError: NCCL is not available", "torch.OutOfMemoryError: CUDA out of memory.",
                           "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled cuda error, "
                           "NCCL version 2.26.2",
                           "ConnectionError: Max retries exceeded", "TimeoutError: data server did not answer",
                           "torch.distributed.checkpoint.api.CheckpointException: ranks:dict_keys([3])",
                           "RuntimeError: the broken pipe line of the config", "EOFError: Ran out of input"})
    EXPECT_FALSE(logs::IsOfOthers(text, "load (app/data.py:3)")) << text;
  EXPECT_TRUE(logs::IsOfOthers("EOFError", "recv_bytes (multiprocessing/connection.py:216)"));
}

}  // namespace
}  // namespace lockstep
