#include "analyzer/util/start_child.h"

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
  // How the words end, as waitpid tells it; -1 where they do not start.
  int Run(const std::vector<std::string>& words) {
    const absl::StatusOr<pid_t> pid = StartChild(words, actions_);
    int status = -1;
    if (pid.ok()) waitpid(*pid, &status, 0);
    return status;
  }
  posix_spawn_file_actions_t actions_;
};

TEST_F(StartChildTest, ItsWordsAndTheCallersActions) {
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

// This test blocks one signal and ignores another, as programs that start children may.
TEST_F(StartChildTest, AGroupOfItsOwnAndNoSignalHeldBack) {
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

TEST_F(StartChildTest, WhatIsNotThereIsTold) {
  const absl::StatusOr<pid_t> pid = StartChild({"/no/such/program", "x"}, actions_);
  EXPECT_EQ(pid.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(pid.status().message(), HasSubstr("cannot start /no/such/program: No such file"));
}

}  // namespace
}  // namespace lockstep
