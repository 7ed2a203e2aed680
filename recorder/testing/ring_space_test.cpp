// Tests space for rings on a separate file system: how it is shared, and that simultaneous processes never take too
// much.
#include "recorder/base/ring_space.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "recorder/ring/layout.h"
#include "tests/support/files.h"

namespace lockstep::recorder {
namespace {

constexpr uint64_t kKib = 1024, kMib = 1024 * kKib;
constexpr uint64_t kWanted = ring::kDefaultFileBytes;

class RingSpaceTest : public support::FolderTest {
 protected:
  void SetUp() override {
    support::FolderTest::SetUp();
    point_ = folder_ + "/small";
    std::filesystem::create_directory(point_);
  }
  void TearDown() override {
    if (mounted_) umount2(point_.c_str(), MNT_DETACH);
    support::FolderTest::TearDown();
  }
  bool Mount(int mib) {
    mounted_ = mount("tmpfs", point_.c_str(), "tmpfs", 0, ("size=" + std::to_string(mib) + "m").c_str()) == 0;
    return mounted_;
  }
  // Returns the space that a process gets for the ring `name` in the job's folder.
  uint64_t Take(const std::string& top, const std::string& job, const std::string& name, int32_t local_ranks,
                uint64_t wanted = kWanted) {
    const std::string folder = point_ + "/" + top + "/" + job;
    std::filesystem::create_directories(folder);
    const int top_fd = open((point_ + "/" + top).c_str(), O_RDONLY | O_DIRECTORY);
    const int job_fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY);
    const std::string path = folder + "/" + name + ".ring";
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    const RingShare share = ReserveShare(top_fd, job_fd, fd, wanted, local_ranks);
    struct stat info {};
    EXPECT_EQ(fstat(fd, &info), 0);
    if (share.bytes == 0) {
      unlink(path.c_str());
    } else {
      EXPECT_EQ(static_cast<uint64_t>(info.st_size), share.bytes);
      EXPECT_EQ(static_cast<uint64_t>(info.st_blocks) * 512, share.bytes) << "every page is reserved";
    }
    for (const int one : {fd, job_fd, top_fd}) close(one);
    return share.bytes;
  }
  uint64_t Used() const {
    struct statvfs info {};
    EXPECT_EQ(statvfs(point_.c_str(), &info), 0);
    return (info.f_blocks - info.f_bfree) * info.f_frsize;
  }

  std::string point_;
  bool mounted_ = false;
};

TEST_F(RingSpaceTest, TheRanksOfAHostShareASixteenth) {
  if (!Mount(64)) GTEST_SKIP() << "cannot mount a tmpfs here";
  for (int rank = 0; rank < 8; ++rank)
    EXPECT_EQ(Take("lockstep-0", "a.0", std::to_string(rank), 8), 512 * kKib) << rank;
  EXPECT_EQ(Take("lockstep-0", "a.0", "more", 8), 0u) << "no space is left";
  EXPECT_EQ(Used(), 4 * kMib);
}

TEST_F(RingSpaceTest, WithoutTheNumberOfRanksEachLeavesMostOfTheSpace) {
  if (!Mount(64)) GTEST_SKIP() << "cannot mount a tmpfs here";
  std::vector<uint64_t> sizes;
  for (int rank = 0; rank < 16; ++rank) sizes.push_back(Take("lockstep-0", "a.0", std::to_string(rank), 0));
  EXPECT_EQ(sizes[0], 512 * kKib);
  for (int rank = 1; rank < 15; ++rank) EXPECT_EQ(sizes[static_cast<size_t>(rank)], 256 * kKib) << rank;
  EXPECT_EQ(sizes[15], 0u);
}

TEST_F(RingSpaceTest, NoMoreThanRequestedIsTaken) {
  if (!Mount(1024)) GTEST_SKIP() << "cannot mount a tmpfs here";
  EXPECT_EQ(Take("lockstep-0", "a.0", "0", 1), kWanted);
  EXPECT_EQ(Take("lockstep-0", "a.0", "1", 1, kWanted / 2), kWanted / 2);
}

TEST_F(RingSpaceTest, OtherJobsAndFoldersCountAndOtherFilesDoNot) {
  if (!Mount(64)) GTEST_SKIP() << "cannot mount a tmpfs here";
  EXPECT_EQ(Take("lockstep-0", "old.0", "0", 2), 2 * kMib);
  EXPECT_EQ(Take("lockstep-slurm/node1", "b.0", "0", 2), 1 * kMib) << "half of what the other job left";
  EXPECT_EQ(Take("lockstep-run-0-abcdef", "c.0", "0", 1), 1 * kMib);
  EXPECT_EQ(Take("elsewhere", "d.0", "0", 1), 0u);
  std::filesystem::remove_all(point_ + "/lockstep-0");
  EXPECT_EQ(Take("elsewhere", "d.0", "1", 1), 2 * kMib);
  EXPECT_EQ(Take("elsewhere", "e.0", "0", 1), 0u) << "rings in the rank's folder count, whatever its name";
}

TEST_F(RingSpaceTest, SpaceOfOtherFilesIsNotShared) {
  if (!Mount(64)) GTEST_SKIP() << "cannot mount a tmpfs here";
  const int filler = open((point_ + "/filler").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(posix_fallocate(filler, 0, 48 * kMib), 0);
  EXPECT_EQ(Take("lockstep-0", "a.0", "0", 1), 1 * kMib);
  EXPECT_EQ(Take("lockstep-0", "a.0", "1", 1), 0u);
  std::filesystem::remove_all(point_ + "/lockstep-0");
  ASSERT_EQ(posix_fallocate(filler, 0, 61 * kMib), 0);
  EXPECT_EQ(Take("lockstep-0", "a.0", "2", 1), 0u) << "a sixteenth of 3 MiB is too small for a ring";
  close(filler);
}

TEST_F(RingSpaceTest, AUserWhoseFolderCannotBeReadGetsAnEqualShare) {
  if (geteuid() != 0 || !Mount(64)) GTEST_SKIP() << "mounting a tmpfs and changing the user are not allowed here";
  std::filesystem::create_directory(point_ + "/lockstep-4711");
  ASSERT_EQ(chown((point_ + "/lockstep-4711").c_str(), 4711, 4711), 0);
  std::filesystem::create_directory(point_ + "/lockstep-run-4711-abcdef");
  ASSERT_EQ(chown((point_ + "/lockstep-run-4711-abcdef").c_str(), 4711, 4711), 0);
  std::filesystem::create_directory(point_ + "/lockstep-999");  // the folder does not belong to user 999
  for (const char* name : {"/lockstep-4711", "/lockstep-run-4711-abcdef", "/lockstep-999"})
    ASSERT_EQ(chmod((point_ + name).c_str(), 0700), 0);
  ASSERT_EQ(chmod(point_.c_str(), 0777), 0);
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  const pid_t child = fork();
  if (child == 0) _exit(setuid(4712) == 0 && Take("lockstep-4712", "a.0", "0", 1) == 2 * kMib ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(RingSpaceTest, SimultaneousProcessesStayWithinTheBudget) {
  if (!Mount(40)) GTEST_SKIP() << "cannot mount a tmpfs here";
  for (int round = 0; round < 20; ++round) {
    const int32_t known = round % 2 == 0 ? 16 : 0;
    int gate[2];
    ASSERT_EQ(pipe(gate), 0);
    std::vector<pid_t> children;
    for (int rank = 0; rank < 16; ++rank) {
      const pid_t child = fork();
      if (child == 0) {
        close(gate[1]);
        char word = 0;
        while (read(gate[0], &word, 1) > 0) {
        }
        // The ranks belong to two jobs.
        Take("lockstep-0", rank % 2 == 0 ? "a.0" : "b.0", std::to_string(rank), known);
        _exit(testing::Test::HasFailure() ? 1 : 0);
      }
      children.push_back(child);
    }
    close(gate[0]);
    close(gate[1]);
    uint64_t most = 0;
    for (size_t ended = 0; ended < children.size();) {
      most = std::max(most, Used());
      int status = 0;
      if (waitpid(-1, &status, WNOHANG) > 0) {
        ++ended;
        EXPECT_EQ(status, 0);
      }
      sched_yield();
    }
    EXPECT_LE(most, 40 * kMib / 16) << "round " << round;
    EXPECT_LE(Used(), 40 * kMib / 16) << "round " << round;
    EXPECT_GT(Used(), 0u) << "round " << round;
    std::filesystem::remove_all(point_ + "/lockstep-0");
  }
}

TEST_F(RingSpaceTest, AMemoryFileIsReservedAndPrivate) {
  const long fd = MakeMemoryFile("host.1.0.ring", 1 * kMib);
  ASSERT_GE(fd, 0);
  struct stat info {};
  ASSERT_EQ(fstat(static_cast<int>(fd), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_EQ(static_cast<uint64_t>(info.st_blocks) * 512, 1 * kMib);
  EXPECT_EQ(fcntl(static_cast<int>(fd), F_GETFD), FD_CLOEXEC);
  const std::string link = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd));
  EXPECT_EQ(link, "/memfd:host.1.0.ring (deleted)");
  close(static_cast<int>(fd));
}

}  // namespace
}  // namespace lockstep::recorder
