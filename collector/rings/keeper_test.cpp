#include "collector/rings/keeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "collector/host/proc.h"
#include "collector/rings/folder.h"

namespace lockstep {
namespace {

LaunchPlan Plan(std::vector<std::string> command, int count = 1) {
  LaunchPlan plan;
  plan.command = std::move(command);
  const char* path = getenv("PATH");
  for (int i = 0; i < count; ++i) {
    plan.environments.push_back(
        {std::string("PATH=") + (path != nullptr ? path : "/usr/bin:/bin"), "CHILD=" + std::to_string(i)});
  }
  sigemptyset(&plan.signal_mask);
  return plan;
}

std::optional<KeeperEvent> Wait(Keeper* keeper) {
  bool gone = false;
  for (;;) {
    if (auto event = keeper->Next(&gone)) return event;
    pollfd wait = {keeper->fd(), POLLIN, 0};
    if (gone || poll(&wait, 1, 20'000) <= 0) return std::nullopt;
  }
}

bool Alive(pid_t pid) {
  const auto stat = ReadProcStat(pid);
  return stat && stat->state != 'Z';
}

// Waits until the process exits.
bool EndsSoon(pid_t pid) {
  const int64_t until = MonotonicNs() + 20'000'000'000;
  while (Alive(pid) && MonotonicNs() < until) usleep(2000);
  return !Alive(pid);
}

TEST(KeeperTest, StartsEachRankWithItsEnvironmentAndReportsItsEnd) {
  auto keeper = Keeper::Start(Plan({"sh", "-c", "if [ $CHILD = 1 ]; then kill -9 $$; fi; exit 7"}, 2), -1);
  ASSERT_TRUE(keeper.ok()) << keeper.status();
  int started = 0, ended = 0;
  while (ended < 2) {
    const auto event = Wait(&*keeper);
    ASSERT_TRUE(event.has_value());
    if (event->kind == KeeperEvent::kStarted) ++started;
    if (event->kind != KeeperEvent::kEnded) continue;
    ++ended;
    if (event->child == 0) {
      EXPECT_EQ(event->code, CLD_EXITED);
      EXPECT_EQ(event->status, 7);
    } else {
      EXPECT_EQ(event->child, 1);
      EXPECT_EQ(event->code, CLD_KILLED);
      EXPECT_EQ(event->status, SIGKILL);
    }
  }
  EXPECT_EQ(started, 2);
  keeper->Finish();
}

TEST(KeeperTest, ReapsTheJobWhileNobodyReadsItsEvents) {
  constexpr int kEnds = 500;  // more events than the socket can hold
  auto keeper = Keeper::Start(
      Plan({"sh", "-c", "i=0; while [ $i -lt $0 ]; do (true &); i=$((i+1)); done", std::to_string(kEnds)}), -1);
  ASSERT_TRUE(keeper.ok());
  // Zombies count as descendants, too.
  const int64_t until = MonotonicNs() + 20'000'000'000;
  for (bool started = false; !started || !Descendants(keeper->pid()).empty(); usleep(2000)) {
    started |= !Descendants(keeper->pid()).empty();
    ASSERT_LT(MonotonicNs(), until) << Descendants(keeper->pid()).size() << " processes were not reaped";
  }
  int ended = 0;
  while (ended < kEnds + 1) {
    const auto event = Wait(&*keeper);
    ASSERT_TRUE(event.has_value()) << "after " << ended << " ends";
    if (event->kind == KeeperEvent::kEnded) ++ended;
  }
}

TEST(KeeperTest, SaysWhyACommandCannotStart) {
  auto keeper = Keeper::Start(Plan({"/nowhere/at/all"}), -1);
  ASSERT_TRUE(keeper.ok());
  const auto event = Wait(&*keeper);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->kind, KeeperEvent::kStartFailed);
  EXPECT_EQ(event->error, ENOENT);
}

TEST(KeeperTest, FinishEndsRemainingProcessesAndRemovesTheFolder) {
  std::string folder = ::testing::TempDir() + "/keeper-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::ofstream(folder + "/a.ring") << "x";
  // The shell exits at once and orphans its background process, which ignores SIGTERM.
  LaunchPlan plan = Plan({"sh", "-c", "sh -c 'trap \"\" TERM; sleep 1000' & echo $! > \"$0\"/pid; exit 0", folder});
  plan.ring_folder = folder;
  auto keeper = Keeper::Start(plan, -1);
  ASSERT_TRUE(keeper.ok());
  for (auto event = Wait(&*keeper); event && event->kind != KeeperEvent::kEnded; event = Wait(&*keeper)) {
  }
  pid_t left = 0;
  std::ifstream(folder + "/pid") >> left;
  ASSERT_GT(left, 0);
  EXPECT_TRUE(Alive(left));
  keeper->Finish();
  EXPECT_FALSE(Alive(left));
  EXPECT_NE(access(folder.c_str(), F_OK), 0);
}

TEST(KeeperTest, IfTheWatcherIsKilledTheJobEndsAndTheFolderIsRemoved) {
  std::string folder = ::testing::TempDir() + "/keeper-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string pids = ::testing::TempDir() + "/keeper-pids-" + std::to_string(getpid());
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t watcher = fork();
  if (watcher == 0) {
    // The rank's child has left its session and its parent, so only a subreaper can find it.
    LaunchPlan plan =
        Plan({"sh", "-c", "(setsid sleep 1000 & echo $! >> \"$0\"); echo $$ >> \"$0\"; exec sleep 1000", pids});
    plan.ring_folder = folder;
    auto keeper = Keeper::Start(plan, -1);
    if (!keeper.ok()) _exit(1);
    for (auto event = Wait(&*keeper); event && event->kind != KeeperEvent::kAllStarted; event = Wait(&*keeper)) {
    }
    const pid_t pid = keeper->pid();
    (void)!write(ready[1], &pid, sizeof pid);
    for (;;) pause();
  }
  pid_t keeper_pid = 0;
  ASSERT_EQ(read(ready[0], &keeper_pid, sizeof keeper_pid), static_cast<ssize_t>(sizeof keeper_pid));
  pid_t first = 0, second = 0;
  const int64_t until = MonotonicNs() + 20'000'000'000;
  while (second == 0 && MonotonicNs() < until) {
    std::ifstream file(pids);
    file >> first >> second;
    usleep(2000);
  }
  ASSERT_GT(second, 0);
  kill(watcher, SIGKILL);
  waitpid(watcher, nullptr, 0);
  EXPECT_TRUE(EndsSoon(keeper_pid));
  EXPECT_FALSE(Alive(first));
  EXPECT_FALSE(Alive(second));
  EXPECT_NE(access(folder.c_str(), F_OK), 0);
  unlink(pids.c_str());
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace lockstep
