#include "analyzer/util/start_child.h"
#include "analyzer/util/small_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {
namespace {

using ::testing::HasSubstr;

class StartChildTest : public ::testing::Test {
 protected:
  void SetUp() override { posix_spawn_file_actions_init(&actions_); }
  void TearDown() override { posix_spawn_file_actions_destroy(&actions_); }
  // Returns the wait status of the started command, or -1 if it does not start.
  int Run(const std::vector<std::string>& words) {
    const absl::StatusOr<pid_t> pid = StartChild(words, actions_);
    int status = -1;
    if (pid.ok()) waitpid(*pid, &status, 0);
    return status;
  }
  posix_spawn_file_actions_t actions_;
};

TEST_F(StartChildTest, GetsItsArgumentsAndTheCallersActions) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  posix_spawn_file_actions_adddup2(&actions_, ends[1], STDOUT_FILENO);
  EXPECT_EQ(Run({"/bin/sh", "-c", "echo \"$0\" \"$1\"", "a b", "c"}), 0);
  close(ends[1]);
  char said[64] = {};
  EXPECT_EQ(read(ends[0], said, sizeof said - 1), 6);
  EXPECT_STREQ(said, "a b c\n");
  close(ends[0]);
}

// Programs that start children may block or ignore signals, as this test does.
TEST_F(StartChildTest, RunsInItsOwnGroupWithoutBlockedSignals) {
  sigset_t term, before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &term, &before), 0);
  const auto quit = signal(SIGQUIT, SIG_IGN);
  for (const int number : {SIGTERM, SIGQUIT}) {
    const int status = Run({"/bin/sh", "-c", "kill -" + std::to_string(number) + " -$$; exit 7"});
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << status;
  }
  signal(SIGQUIT, quit);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_F(StartChildTest, AMissingProgramIsReported) {
  const absl::StatusOr<pid_t> pid = StartChild({"/no/such/program", "x"}, actions_);
  EXPECT_EQ(pid.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(pid.status().message(), HasSubstr("cannot start /no/such/program: No such file"));
}

TEST(RunChildTest, ReturnsOutputErrorsAndStatus) {
  ChildRun run;
  run.input = "from us";
  run.output = run.errors = ChildStream::kKeep;
  run.limit_ns = int64_t{60} * 1'000'000'000;
  const std::vector<std::string> environment = {"NAME=a value that does not fit into the string itself"};
  run.environment = &environment;
  absl::StatusOr<ChildResult> result =
      RunChild({"/bin/sh", "-c", "read a b; echo $b $a $NAME; echo no >&2; exit 3"}, run);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->output, "us from a value that does not fit into the string itself\n");
  EXPECT_EQ(result->errors, "no\n");
  EXPECT_EQ(result->Ended().message(), "it exited with status 3");
  run.most_output = 4;
  result = RunChild({"/bin/sh", "-c", "echo 123456; kill -9 $$"}, run);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->output, "1234");
  EXPECT_EQ(result->Ended().message(), "it was killed by signal 9");
}

TEST(RunChildTest, LongErrorOutputIsTruncatedWithoutWaitingForItsEnd) {
  ChildRun run;
  run.output = run.errors = ChildStream::kKeep;
  run.most_output = 1000;
  run.limit_ns = int64_t{60} * 1'000'000'000;
  absl::StatusOr<ChildResult> result = RunChild({"/bin/sh", "-c", "head -c 3000000 /dev/zero >&2; echo done"}, run);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->errors, std::string(1000, '\0'));
  EXPECT_EQ(result->output, "done\n");
  result = RunChild({"/bin/sh", "-c", "echo no >&2; sleep 600 >/dev/null & exit 3"}, run);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->errors, "no\n");
  EXPECT_EQ(result->Ended().message(), "it exited with status 3");
}

TEST(StartCompanionTest, ReturnsItsOutputAndWhyItDoesNotStart) {
  UniqueFd read_end, write_end;
  ASSERT_TRUE(MakePipe(&read_end, &write_end));
  const std::vector<std::string> environment = {"NAME=a value that does not fit into the string itself"};
  const absl::StatusOr<pid_t> pid = StartCompanion({"/bin/sh", "-c", "echo $NAME"}, write_end.get(), &environment);
  ASSERT_TRUE(pid.ok()) << pid.status();
  write_end.reset();
  EXPECT_EQ(ReadSmallFile(read_end.get(), 64), "a value that does not fit into the string itself\n");
  waitpid(*pid, nullptr, 0);
  EXPECT_THAT(StartCompanion({"/no/such/program"}).status().message(),
              HasSubstr("cannot start /no/such/program: No such file"));
}

// The sleep in the background also keeps the pipe open.
TEST(RunChildTest, IsEndedAfterItsTime) {
  ChildRun run;
  run.output = ChildStream::kKeep;
  run.limit_ns = 100'000'000;
  const absl::StatusOr<ChildResult> result = RunChild({"/bin/sh", "-c", "sleep 600 & sleep 600"}, run);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(result.status().message(), "it took longer than 0.1 s and was ended");
}

}  // namespace
}  // namespace lockstep
