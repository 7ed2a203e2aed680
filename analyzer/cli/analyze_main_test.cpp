// Tests the analyze verb as users see it: arguments, streams, exit status.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "analyzer/formats/lsd/writer.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int status = -1;
  std::string out, err;
};

class AnalyzeTest : public ::testing::Test {
 protected:
  AnalyzeTest() {
    // Rank 2 of four never arrived. The others are in their call, and the observer knows that nothing moves.
    Bundle bundle;
    bundle.job = "train";
    Communicator comm;
    comm.id = "00000000000000aa";
    comm.name = "world";
    comm.size = 4;
    comm.members = {0, 1, 2, 3};
    bundle.comms.push_back(comm);
    for (int i = 0; i < 4; ++i) {
      Rank rank;
      rank.rank = i;
      rank.world_size = 4;
      rank.job = "train";
      rank.host = "node0";
      rank.gpu_index = i;
      rank.pid = 1000 + i;
      rank.gpu_marks = ring::GpuMarks::kDone;
      rank.captured_ns = 100'000'000'000;
      rank.threads.emplace_back();
      rank.threads[0].last_call_ns = 60'000'000'000;
      ring::StreamSnapshot stream;
      stream.marked = true;
      stream.issued = i == 2 ? 7 : 8;
      stream.completed = 7;
      rank.streams.push_back(stream);
      Membership m;
      m.comm = 0;
      m.member_rank = i;
      m.state = ring::CommState::kReady;
      m.issued = m.launched = i == 2 ? 7 : 8;
      m.completed = 7;
      rank.memberships.push_back(m);
      for (int64_t seq = 1; seq <= m.issued; ++seq) {
        Op op;
        op.membership = 0;
        op.kind = ring::CallKind::kAllReduce;
        op.seq = op.index = op.ticket = seq;
        op.count = 64;
        op.datatype = 7;
        op.reduction = 0;
        op.thread = 0;
        op.stream = 0;
        op.enter_ns = 50'000'000'000 + seq;
        op.return_ns = op.enter_ns + 1;
        op.state = seq <= 7 ? OpState::kCompleted : OpState::kIncomplete;
        rank.ops.push_back(op);
      }
      bundle.ranks.push_back(rank);
    }
    fs::create_directory(folder_ / "hung");
    fs::create_directory(folder_ / "healthy");
    EXPECT_TRUE(WriteLsd(bundle, {0, 1, 2, 3}, {}, (folder_ / "hung/node0.lsd").string()).ok());
    std::ofstream(folder_ / "hung/manifest.json")
        << R"({"format":1,"ranks_expected":4,"known_stalled":true,"stalled_ns":31000000000})";
    for (Rank& rank : bundle.ranks) {
      rank.ops.resize(7);
      rank.memberships[0].issued = rank.memberships[0].launched = 7;
      rank.streams[0].issued = 7;
    }
    EXPECT_TRUE(WriteLsd(bundle, {0, 1, 2, 3}, {}, (folder_ / "healthy/node0.lsd").string()).ok());
  }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  // `out` is the file for standard output. If it is empty, the test captures the output.
  Outcome Run(std::vector<std::string> arguments, const std::string& out = "") const {
    const std::string out_path = out.empty() ? Path("stdout") : out, err_path = Path("stderr");
    const pid_t child = fork();
    if (child == 0) {
      const int out_fd = open(out_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600),
                err_fd = open(err_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(out_fd, 1);
      dup2(err_fd, 2);
      std::vector<char*> argv = {const_cast<char*>("lockstep-analyze")};
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      alarm(60);
      execv(LOCKSTEP_ANALYZE_BINARY, argv.data());
      _exit(127);
    }
    Outcome outcome;
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    if (out.empty()) outcome.out = support::ReadFile(out_path);
    outcome.err = support::ReadFile(err_path);
    return outcome;
  }

  static void ExpectOneLine(const std::string& err) {
    EXPECT_THAT(err, StartsWith("lockstep analyze: "));
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
  }

  const support::TempFolder temp_;
  const fs::path folder_ = temp_.path();
};

TEST_F(AnalyzeTest, HungJobNamesTheRankAndExitsOne) {
  const Outcome text = Run({Path("hung")});
  EXPECT_EQ(text.status, 1);
  EXPECT_EQ(text.err, "");
  EXPECT_THAT(text.out, StartsWith("HUNG 31 s  rank 2 (node0, GPU 2) never called AllReduce #8 on world."));
  EXPECT_THAT(text.out, HasSubstr("AllReduce #8 on world"));
  const Outcome json = Run({"--format=json", Path("hung")});
  EXPECT_EQ(json.status, 1);
  const nlohmann::json parsed = nlohmann::json::parse(json.out);
  EXPECT_EQ(parsed["verdict"], "HUNG");
  ASSERT_EQ(parsed["findings"].size(), 1u);
  EXPECT_EQ(parsed["findings"][0]["culprit_ranks"], nlohmann::json({2}));
  EXPECT_EQ(parsed["findings"][0]["victim_count"], 3);
  EXPECT_EQ(parsed["ranks_expected"], 4);
}

TEST_F(AnalyzeTest, TimingPrintsEachStageAndTheMemory) {
  const Outcome timed = Run({"--timing", "--output", Path("timed.txt"), Path("hung")});
  EXPECT_EQ(timed.status, 1);
  EXPECT_THAT(timed.err, ::testing::MatchesRegex("reading: [0-9.]+ s, CPU time [0-9.]+ s\n"
                                                 "analyzing 4 ranks: [0-9.]+ s, CPU time [0-9.]+ s\n"
                                                 "writing the report: [0-9.]+ s, CPU time [0-9.]+ s\n"
                                                 "peak memory: [0-9]+ MiB\n"));
  EXPECT_EQ(support::ReadFile(Path("timed.txt")), Run({Path("hung")}).out);
}

TEST_F(AnalyzeTest, AReplayProvesTheVerdictUnlessItIsTurnedOff) {
  const std::string line = "proved by replay: the recorded calls would complete if rank";
  EXPECT_THAT(Run({Path("hung")}).out, HasSubstr(line));
  EXPECT_THAT(Run({"--format=html", Path("hung")}).out, HasSubstr(line));
  nlohmann::json proved = nlohmann::json::parse(Run({"--format=json", "--replay=yes", Path("hung")}).out);
  EXPECT_EQ(proved["findings"][0]["proof"]["result"], "PROVED");
  EXPECT_THAT(std::string(proved["findings"][0]["proof"]["text"]), StartsWith(line));
  EXPECT_THAT(Run({"--replay=no", Path("hung")}).out, Not(HasSubstr("replay")));
  const nlohmann::json plain = nlohmann::json::parse(Run({"--format=json", "--replay=no", Path("hung")}).out);
  proved["findings"][0].erase("proof");
  EXPECT_EQ(proved, plain);
}

TEST_F(AnalyzeTest, HealthyJobExitsZero) {
  const Outcome outcome = Run({Path("healthy"), "--format", "json"});
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_TRUE(nlohmann::json::parse(outcome.out)["findings"].empty());
}

TEST_F(AnalyzeTest, RenamedFilesGiveTheSameJson) {
  fs::create_directory(folder_ / "renamed");
  fs::copy(folder_ / "hung/node0.lsd", folder_ / "renamed/zzz");
  fs::copy(folder_ / "hung/manifest.json", folder_ / "renamed/manifest.json");
  EXPECT_EQ(Run({Path("hung"), "--format=json"}).out, Run({Path("renamed"), "--format=json"}).out);
}

TEST_F(AnalyzeTest, HelpAndVersionGoToStandardOutput) {
  for (const char* option : {"--help", "-h"}) {
    const Outcome outcome = Run({option});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.out, HasSubstr("Usage: lockstep analyze"));
    EXPECT_EQ(outcome.err, "");
  }
  EXPECT_THAT(Run({"--version"}).out, StartsWith("lockstep "));
}

TEST_F(AnalyzeTest, WrongUsageIsOneLineAndExitsTwo) {
  const std::vector<std::vector<std::string>> wrong = {{},
                                                       {"--nonsense", "x"},
                                                       {"--format", "yaml", "x"},
                                                       {"--format"},
                                                       {"--late-after=soon", "x"},
                                                       {"--late-after", "-1", "x"},
                                                       {"--output=", "x"},
                                                       {""},
                                                       {"--evil\x1b[31m\n", "x"}};
  for (const auto& arguments : wrong) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(outcome.out, "");
    ExpectOneLine(outcome.err);
    EXPECT_THAT(outcome.err, HasSubstr("--help"));
  }
}

TEST_F(AnalyzeTest, NothingReadableIsOneLineAndExitsThree) {
  std::ofstream(folder_ / "junk") << "hello";
  fs::create_directory(folder_ / "empty");
  for (const char* name : {"missing", "junk", "empty"}) {
    const Outcome outcome = Run({Path(name)});
    EXPECT_EQ(outcome.status, 3) << name;
    EXPECT_EQ(outcome.out, "");
    ExpectOneLine(outcome.err);
    EXPECT_THAT(outcome.err, HasSubstr(Path(name)));
  }
}

TEST_F(AnalyzeTest, ADashDashEndsOptions) {
  const Outcome outcome = Run({"--", "--format"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr("--format: no such file"));
}

TEST_F(AnalyzeTest, OutputFilesAreNeverIncomplete) {
  EXPECT_EQ(Run({Path("hung"), "--format=html", "--output", Path("report")}).status, 1);
  EXPECT_THAT(support::ReadFile(folder_ / "report"), StartsWith("<!DOCTYPE html>"));
  for (const auto& entry : fs::directory_iterator(folder_)) EXPECT_NE(entry.path().filename().string()[0], '.');
}

TEST_F(AnalyzeTest, UnwritableOutputIsReported) {
  for (const std::string& target : {std::string("/dev/full"), Path("no/such/folder/x")}) {
    const Outcome outcome = Run({Path("hung"), "--output=" + target});
    EXPECT_EQ(outcome.status, 3);
    ExpectOneLine(outcome.err);
    EXPECT_THAT(outcome.err, HasSubstr(target));
  }
  const Outcome outcome = Run({Path("hung")}, "/dev/full");
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(outcome.err, HasSubstr("No space left"));
}

TEST_F(AnalyzeTest, AReaderThatClosesThePipeCausesNoCrash) {
  // A pipe whose reading end closes as soon as the writer has opened it.
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  const int reader = open(Path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  const int writer = open(Path("pipe").c_str(), O_WRONLY);
  close(reader);
  const pid_t child = fork();
  if (child == 0) {
    dup2(writer, 1);
    const int err = open(Path("stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(err, 2);
    execl(LOCKSTEP_ANALYZE_BINARY, "lockstep-analyze", Path("hung").c_str(), nullptr);
    _exit(127);
  }
  close(writer);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_THAT(support::ReadFile(folder_ / "stderr"), HasSubstr("Broken pipe"));
}

TEST_F(AnalyzeTest, CtrlCEndsItAtOnceAndLeavesNoPartialFile) {
  // Nobody reads the report, so the program stays blocked for as long as the test needs.
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGINT, SIG_DFL);
    alarm(60);
    execl(LOCKSTEP_ANALYZE_BINARY, "lockstep-analyze", "--output", Path("pipe").c_str(), Path("hung").c_str(), nullptr);
    _exit(127);
  }
  // If the main thread has blocked the signal, another thread waits for it.
  const std::string status_path = "/proc/" + std::to_string(child) + "/status";
  for (bool watched = false; !watched;) {
    const std::string text = support::ReadFile(status_path);
    const size_t at = text.find("SigBlk:");
    ASSERT_NE(at, std::string::npos) << "the program ended on its own";
    watched = strtoull(text.c_str() + at + 7, nullptr, 16) >> (SIGINT - 1) & 1;
    usleep(1000);
  }
  kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  for (const auto& entry : fs::directory_iterator(folder_))
    EXPECT_NE(entry.path().filename().string()[0], '.') << entry.path();
}

}  // namespace
}  // namespace lockstep
