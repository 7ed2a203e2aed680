// Tests dumps from jobs that answer like PyTorch, and from jobs that do not.
#include "collector/tools/attach/torch_dumps.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/clock.h"
#include "analyzer/util/small_file.h"
#include "analyzer/util/start_child.h"
#include "analyzer/util/time_units.h"
#include "analyzer/util/unique_fd.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uid_t kNobody = 65534;

class TorchDumpsTest : public support::FolderTest {
 protected:
  ~TorchDumpsTest() override {
    done_ = true;
    for (std::thread& thread : watchdogs_) thread.join();
    for (const RankProcess& rank : job_.ranks) {
      kill(-rank.pid, SIGKILL);
      waitpid(rank.pid, nullptr, 0);
    }
  }

  std::string Pipe(int rank) const { return absl::StrCat(folder_, "/pipe", rank, ".pipe"); }
  std::string Dump(int rank) const { return absl::StrCat(folder_, "/dump_", rank); }

  // Adds the job's next rank: a process with these variables.
  void AddRank(std::vector<std::string> environment, std::vector<std::string> command = {}) {
    if (command.empty()) command = {"/bin/sleep", "1000"};
    environment.push_back("PATH=/usr/sbin:/usr/bin:/sbin:/bin");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const absl::StatusOr<pid_t> pid = StartChild(command, actions, &environment);
    posix_spawn_file_actions_destroy(&actions);
    ASSERT_TRUE(pid.ok()) << pid.status();
    for (int i = 0; i < 1000 && ReadSmallFile(absl::StrCat("/proc/", *pid, "/comm")) != "sleep\n"; ++i) usleep(10'000);
    RankProcess rank;
    rank.pid = *pid;
    rank.uid = geteuid();
    struct stat info {};
    if (stat(absl::StrCat("/proc/", *pid).c_str(), &info) == 0) rank.uid = info.st_uid;
    rank.rank = static_cast<int32_t>(job_.ranks.size());
    job_.ranks.push_back(rank);
  }
  void AddRank() {
    AddRank({absl::StrCat("TORCH_NCCL_DEBUG_INFO_PIPE_FILE=", folder_, "/pipe"),
             absl::StrCat("TORCH_NCCL_DEBUG_INFO_TEMP_FILE=", folder_, "/dump_")});
  }

  // Like PyTorch's watchdog, creates the pipe, and writes a dump when a byte arrives.
  void StartWatchdog(int rank, std::vector<std::string> parts) {
    ASSERT_EQ(mkfifo(Pipe(rank).c_str(), 0666), 0);
    const int fd = open(Pipe(rank).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    watchdogs_.emplace_back([this, fd, rank, parts = std::move(parts)] {
      const UniqueFd pipe(fd);
      for (char byte; !done_; usleep(20'000)) {
        if (read(pipe.get(), &byte, 1) != 1) continue;
        ++asked_;
        if (parts.empty()) continue;
        const UniqueFd dump(open(Dump(rank).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
        for (const std::string& part : parts) {
          EXPECT_EQ(write(dump.get(), part.data(), part.size()), static_cast<ssize_t>(part.size()));
          usleep(300'000);  // a slow file system: the dump grows while it is read
        }
      }
    });
  }

  void WriteDump(int rank, int64_t age_ns) const {
    support::WriteFile(Dump(rank), "dump.");
    const int64_t at = RealtimeNs() - age_ns;
    const timespec times[] = {{at / kSecond, at % kSecond}, {at / kSecond, at % kSecond}};
    ASSERT_EQ(utimensat(AT_FDCWD, Dump(rank).c_str(), times, 0), 0);
  }

  TorchDumps Ask(int64_t wait_ns) { return TorchDumpReader(job_, true, wait_ns).Take(); }
  TorchDumps Look() { return TorchDumpReader(job_, false, 10 * kSecond).Take(); }

  FoundJob job_;
  std::atomic<bool> done_{false};
  std::atomic<int> asked_{0};
  std::vector<std::thread> watchdogs_;
};

TEST_F(TorchDumpsTest, AreRequestedAndTakenWhole) {
  support::WriteFile(Dump(0), "of an earlier incident.");
  StartWatchdog(0, {"first ", "second."});
  AddRank();
  AddRank();
  support::WriteFile(Dump(1), "of an earlier incident.");
  StartWatchdog(1, {"{\"version\": ", "\"2.10\"}\n"});
  const TorchDumps found = Ask(20 * kSecond);
  ASSERT_THAT(found.dumps, SizeIs(2));
  EXPECT_EQ(found.dumps[0].bytes, "first second.");
  EXPECT_EQ(found.dumps[1].of, 1u);
  EXPECT_EQ(found.dumps[1].bytes, "{\"version\": \"2.10\"}\n");
  EXPECT_GT(found.dumps[0].written_ns, RealtimeNs() - 60 * kSecond);
  EXPECT_EQ(found.missing, "");
  EXPECT_EQ(asked_, 2);
}

TEST_F(TorchDumpsTest, InvalidPipesAndDumpsAreSkipped) {
  const std::string secret = folder_ + "/secret";
  support::WriteFile(secret, "secret.");
  for (int rank = 0; rank < 9; ++rank) AddRank();
  AddRank({});
  // The fault of each rank's pipe or dump. 0: a link instead of the pipe. 1: a regular file instead of the pipe. 2: no
  // pipe. 3: no reader. 4: no dump appears. 5: the dump is a link. 6: the dump is huge. 7: the dump never completes. 8:
  // a folder instead of the dump.
  StartWatchdog(4, {});
  ASSERT_EQ(symlink(Pipe(4).c_str(), Pipe(0).c_str()), 0);
  support::WriteFile(Pipe(1), "");
  ASSERT_EQ(mkfifo(Pipe(3).c_str(), 0600), 0);
  for (const int rank : {5, 6, 8}) StartWatchdog(rank, {});
  StartWatchdog(7, {"the beginning"});
  std::filesystem::remove(Dump(4));
  ASSERT_EQ(symlink(secret.c_str(), Dump(5).c_str()), 0);
  support::WriteFile(Dump(6), "");
  ASSERT_EQ(truncate(Dump(6).c_str(), 0), 0);
  std::thread grow([this] {
    for (int i = 0; i < 500 && asked_ < 5; ++i) usleep(10'000);
    // Files get the time of the kernel's coarse clock, which must have passed the time of the request.
    const int64_t asked_ns = RealtimeNs();
    for (timespec now{}; now.tv_sec * kSecond + now.tv_nsec <= asked_ns; usleep(1'000))
      clock_gettime(CLOCK_REALTIME_COARSE, &now);
    EXPECT_EQ(truncate(Dump(6).c_str(), off_t{1} << 40), 0);
  });
  std::filesystem::create_directory(Dump(8));
  const int64_t begin = MonotonicNs();
  const TorchDumps found = Ask(2 * kSecond);
  grow.join();
  EXPECT_LT(MonotonicNs() - begin, 10 * kSecond);
  EXPECT_THAT(found.dumps, IsEmpty());
  EXPECT_THAT(found.missing,
              AllOf(HasSubstr("rank 0, 1 (the file at the pipe's path is not a pipe"), HasSubstr("rank 2 (PyTorch "),
                    HasSubstr("rank 3 (nothing reads"), HasSubstr("rank 4 (no dump was written within 2.0 s"),
                    HasSubstr("rank 5, 8 (the file at the dump's path"), HasSubstr("rank 7 (the dump was not complete"),
                    HasSubstr("rank 6 (the dump is larger than 32 MiB"), HasSubstr("rank 9 (the process was started")));
  EXPECT_EQ(support::ReadFile(Pipe(1)), "") << "bytes were written to a file that is not a pipe";
}

TEST_F(TorchDumpsTest, WithoutARequestRecentDumpsOfOneMomentAreTaken) {
  for (int rank = 0; rank < 5; ++rank) AddRank();
  // A dump must be newer than its process. The processes are only seconds old, so the test puts the files' times into
  // the future.
  WriteDump(0, -100 * kSecond);
  WriteDump(1, -90 * kSecond);
  WriteDump(2, -10 * kSecond);  // taken at another moment
  WriteDump(3, 10 * kSecond);   // taken before the process began
  StartWatchdog(4, {"dump."});
  // This time does not fit into nanoseconds.
  support::WriteFile(Dump(4), "dump.");
  const timespec far[] = {{INT64_MAX / 2, 0}, {INT64_MAX / 2, 0}};
  utimensat(AT_FDCWD, Dump(4).c_str(), far, 0);
  const TorchDumps found = Look();
  ASSERT_THAT(found.dumps, SizeIs(2));
  EXPECT_EQ(found.dumps[0].of, 0u);
  EXPECT_EQ(found.dumps[1].of, 1u);
  EXPECT_EQ(found.missing, "");
  EXPECT_TRUE(found.can_ask);
  EXPECT_EQ(asked_, 0);
}

TEST_F(TorchDumpsTest, NothingIsPrintedForJobsWithoutDumps) {
  AddRank({});
  const TorchDumps found = Look();
  EXPECT_THAT(found.dumps, IsEmpty());
  EXPECT_EQ(found.missing, "");
  EXPECT_FALSE(found.can_ask);
  job_.numbered = true;
  EXPECT_THAT(Ask(kSecond).missing, HasSubstr("the ranks are unknown"));
}

TEST_F(TorchDumpsTest, PathsAreResolvedAsTheProcessSeesThem) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may mount";
  const std::string seen = folder_ + "/seen";
  std::filesystem::create_directory(seen);
  AddRank({"TORCH_NCCL_DEBUG_INFO_PIPE_FILE=pipe", absl::StrCat("TORCH_FR_DUMP_TEMP_FILE=", seen, "/dump_")},
          {"/usr/bin/unshare", "-m", "sh", "-c",
           absl::StrCat("mount --bind ", folder_, " ", seen, " && cd ", folder_, " && exec sleep 1000")});
  if (ReadSmallFile(absl::StrCat("/proc/", job_.ranks[0].pid, "/comm")) != "sleep\n")
    GTEST_SKIP() << "cannot mount here";
  StartWatchdog(0, {"dump."});
  const TorchDumps found = Ask(20 * kSecond);
  EXPECT_THAT(found.dumps, SizeIs(1)) << found.missing;
}

// The file of one rank never completes, as on a server that does not respond.
TEST_F(TorchDumpsTest, CompleteDumpsAreKeptIfOthersNeverComplete) {
  AddRank();
  AddRank();
  StartWatchdog(0, {"dump."});
  StartWatchdog(1, {});
  TorchDumpReader reader(job_, true, 60 * kSecond);
  std::set<int> others;
  for (const RankProcess& rank : job_.ranks) others.insert(rank.pid);
  int child = 0;
  std::istringstream children(ReadSmallFile(absl::StrCat("/proc/self/task/", gettid(), "/children")));
  for (int pid; children >> pid;) {
    if (others.count(pid) == 0) child = pid;
  }
  if (child == 0) GTEST_SKIP() << "this kernel does not list children";
  std::thread killer([&] {
    // The child wrote a byte to each of two pipes, and then the dump.
    const auto written = [child] {
      const std::string io = ReadSmallFile(absl::StrCat("/proc/", child, "/io"));
      int64_t bytes = 0;
      const size_t at = io.find("wchar: ");
      return at != io.npos && absl::SimpleAtoi(absl::string_view(io).substr(at + 7, io.find('\n', at) - at - 7), &bytes)
                 ? bytes
                 : 0;
    };
    for (int i = 0; i < 3000 && written() < 2 + 5; ++i) usleep(10'000);
    kill(child, SIGKILL);
  });
  const TorchDumps found = reader.Take();
  killer.join();
  ASSERT_THAT(found.dumps, SizeIs(1)) << found.missing;
  EXPECT_EQ(found.dumps[0].bytes, "dump.");
  EXPECT_THAT(found.missing, HasSubstr("rank 1 (the file could not be read)"));
}

TEST_F(TorchDumpsTest, OnlyFilesThatTheJobsUserMayUseAreTouched) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can look at another user's process";
  const std::string open = folder_ + "/open", closed = folder_ + "/closed";
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  for (const std::string& folder : {open, closed}) {
    std::filesystem::create_directory(folder);
    for (int rank = 0; rank < 3; ++rank) {
      support::WriteFile(absl::StrCat(folder, "/", rank), "dump.");
      const uid_t owner = rank < 2 ? kNobody : 0;
      ASSERT_EQ(chown(absl::StrCat(folder, "/", rank).c_str(), owner, owner), 0);
    }
  }
  ASSERT_EQ(chmod(closed.c_str(), 0700), 0);
  for (const std::string& folder : {open, closed, open}) {
    AddRank({absl::StrCat("TORCH_FR_DUMP_TEMP_FILE=", folder, "/")},
            {"/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "sleep", "1000"});
  }
  ASSERT_EQ(job_.ranks[0].uid, kNobody);
  for (int rank = 0; rank < 3; ++rank) {
    const int64_t at = RealtimeNs() + kSecond;
    const timespec times[] = {{at / kSecond, 0}, {at / kSecond, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, absl::StrCat(open, "/", rank).c_str(), times, 0), 0);
    ASSERT_EQ(utimensat(AT_FDCWD, absl::StrCat(closed, "/", rank).c_str(), times, 0), 0);
  }
  // 0: owned by the user. 1: in a folder of root. 2: a file of root.
  const TorchDumps found = Look();
  ASSERT_THAT(found.dumps, SizeIs(1));
  EXPECT_EQ(found.dumps[0].of, 0u);
}

}  // namespace
}  // namespace lockstep
