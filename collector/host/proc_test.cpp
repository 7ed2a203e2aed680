#include "collector/host/proc.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/evidence/process_evidence.h"
#include "collector/host/process_sample.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

TEST(ProcTest, NamesMayContainSpacesAndParentheses) {
  std::string text = "4242 (a) R (b) 1 S 17 4242";
  const auto bad = ParseProcStat(text);
  EXPECT_FALSE(bad.has_value()) << "too few fields";
  text = "4242 (x) R (y) T 17 1 1 0 -1 4194304 0 0 0 0 10 20 3 4 20 0 5 0 987654 1 2";
  for (int i = 0; i < 28; ++i) text += " 0";
  const auto stat = ParseProcStat(text);
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->state, 'T');
  EXPECT_EQ(stat->parent, 17);
  EXPECT_EQ(stat->cpu_ticks, 37u);
  EXPECT_EQ(stat->start_ticks, 987654u);
  EXPECT_EQ(stat->wait_status, -1);
}

TEST(ProcTest, SeesItsOwnProcessAndItsChildren) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    close(pipe_fds[1]);
    (void)!read(pipe_fds[0], &byte, 1);
    _exit(3);
  }
  close(pipe_fds[0]);
  const std::vector<pid_t> below = Descendants(getpid());
  EXPECT_NE(std::find(below.begin(), below.end(), child), below.end());
  EXPECT_TRUE(ReadActivity(child).valid);
  const auto mapped = ReadMapped(child, "/x/liblockstep.so");
  ASSERT_TRUE(mapped.has_value());
  EXPECT_TRUE(mapped->dynamic);
  EXPECT_FALSE(mapped->lockstep);
  close(pipe_fds[1]);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  const auto stat = ReadProcStat(child);
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->state, 'Z');
  EXPECT_EQ(WEXITSTATUS(stat->wait_status), 3) << "a zombie shows how it ended";
  EXPECT_FALSE(ReadActivity(child).valid);
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  EXPECT_EQ(WEXITSTATUS(ReadWaitStatus(child, -1).value_or(0)), 3);
  waitpid(child, nullptr, 0);
  // Older kernels do not report how a reaped process ended. No kernel may report it wrongly.
  EXPECT_EQ(WEXITSTATUS(ReadWaitStatus(child, pidfd).value_or(3 << 8)), 3);
  EXPECT_EQ(ReadWaitStatus(child, -1), std::nullopt);
  close(pidfd);
  EXPECT_FALSE(ReadProcStat(child).has_value());
}

TEST(ProcTest, HowAnotherUsersZombieEndedIsUnknown) {
  if (getuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kNobody = 65534;
  for (const int code : {0, 3}) {
    const pid_t zombie = fork();
    if (zombie == 0) _exit(code);
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(zombie), &info, WEXITED | WNOWAIT), 0);
    const auto own = ReadProcStat(zombie);
    ASSERT_TRUE(own.has_value());
    EXPECT_EQ(WEXITSTATUS(own->wait_status), code);
    const pid_t other = fork();
    if (other == 0) {
      const bool dropped = setresgid(kNobody, kNobody, kNobody) == 0 && setresuid(kNobody, kNobody, kNobody) == 0;
      const auto stat = ReadProcStat(zombie);
      _exit(dropped && stat && stat->ended() && stat->wait_status == -1 ? 0 : 1);
    }
    int status = -1;
    waitpid(other, &status, 0);
    waitpid(zombie, nullptr, 0);
    EXPECT_EQ(status, 0);
  }
}

TEST(ProcTest, FilesOpenForWritingAreListed) {
  const support::TempFolder folder;
  const std::string written = folder.path() + "/checkpoint.pt", read_only = folder.path() + "/input.bin";
  const int out = open(written.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const int in = open(read_only.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(out, 0);
  ASSERT_GE(in, 0);
  char real[4096];
  const ssize_t size = readlink(("/proc/self/fd/" + std::to_string(out)).c_str(), real, sizeof real);
  ASSERT_GT(size, 0);
  const auto [files, mounts] = ReadWrittenFiles(getpid());
  const auto found = std::find(files.begin(), files.end(), std::string(real, static_cast<size_t>(size)));
  ASSERT_NE(found, files.end());
  ASSERT_EQ(mounts.size(), files.size());
  // The mount point is a prefix of the path.
  const std::string mount = mounts[static_cast<size_t>(found - files.begin())];
  const size_t type = mount.rfind(" (");
  ASSERT_NE(type, mount.npos) << mount;
  EXPECT_EQ(found->compare(0, type, mount, 0, type), 0) << *found << " on " << mount;
  EXPECT_EQ(mount.back(), ')');
  for (const std::string& file : files) EXPECT_EQ(file.find("input.bin"), file.npos);
  EXPECT_LE(ReadWrittenFiles(getpid(), 1).paths.size(), 1u);
  // A program's output is not among the files that it writes.
  const int before = dup(STDOUT_FILENO);
  dup2(out, STDOUT_FILENO);
  close(out);
  const std::vector<std::string> rest = ReadWrittenFiles(getpid()).paths;
  dup2(before, STDOUT_FILENO);
  close(before);
  EXPECT_EQ(std::find(rest.begin(), rest.end(), std::string(real, static_cast<size_t>(size))), rest.end());
  close(in);
  EXPECT_EQ(ReadThreadsInD(getpid()).count, 0u);
}

TEST(ProcTest, HostileMountNamesAreText) {
  const std::map<int64_t, std::string> mounts = ParseMounts(
      "36 35 98:0 / /mnt/a\\040b\\012c\\134040 rw,noatime - nfs4 server:/x rw\n"
      "37 35 0:33 / /scratch rw shared:9 master:1 - lustre 10.0.0.1@o2ib:/fs rw\n"
      "38 35 0:34 / - rw - tmpfs x rw\n"
      "39 35 0:35 / /short\nx 35 0:35 / /number rw - ext4 y rw\n40 1 0:1 / /\\04 rw - ext4 y rw");
  ASSERT_EQ(mounts.size(), 3u);
  EXPECT_EQ(mounts.at(36), "/mnt/a b\nc\\040 (nfs4)");
  EXPECT_EQ(mounts.at(37), "/scratch (lustre)");
  EXPECT_EQ(mounts.at(40), "/\\04 (ext4)");
}

TEST(ProcTest, TwoSamplesReturnTwoStacks) {
  ProcessSampler sampler;
  Process process;
  sampler.Sample(getpid(), ProcessTree::Read(), &process);
  EXPECT_TRUE(process.stack_later.empty());
  const std::vector<std::string> first = process.stack;
  sampler.Sample(getpid(), ProcessTree::Read(), &process);
  EXPECT_EQ(process.stack, first);
  EXPECT_EQ(process.stack_later.empty(), first.empty());
  EXPECT_GE(process.cpu_ns_between_samples, 0);
}

TEST(ProcTest, ASampleKeepsTheReasonWhyEvidenceHasNoStack) {
  ProcessSampler sampler;
  Process process;
  process.evidence = std::make_shared<ProcessEvidence>();
  process.stack_refused = "ptrace refused";
  sampler.Sample(getpid(), ProcessTree::Read(), &process);
  EXPECT_EQ(process.stack_refused, "ptrace refused");
}

TEST(ProcTest, TheEnvironmentOfAProcessIsRead) {
  EXPECT_EQ(ReadEnvironment(getpid(), "SURELY_NOT_SET_BY_ANYBODY"), std::nullopt);
  if (getenv("PATH") != nullptr) {
    EXPECT_TRUE(ReadEnvironment(getpid(), "PATH").has_value());
  }
}

}  // namespace
}  // namespace lockstep
