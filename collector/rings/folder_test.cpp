#include "collector/rings/folder.h"
#include "tests/support/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace lockstep {
namespace {

using ::testing::HasSubstr;

class RingFolderTest : public support::FolderTest {
 protected:
  static bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }
};

TEST_F(RingFolderTest, IsPrivateAndIsRemovedWithItsContent) {
  const auto folder = MakeRingFolderUnder(folder_, {});
  ASSERT_TRUE(folder.ok()) << folder.status();
  struct stat info {};
  ASSERT_EQ(stat(folder->path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  ASSERT_EQ(mkdir((folder->path + "/job.0").c_str(), 0700), 0);
  std::ofstream(folder->path + "/job.0/host.1.ring") << "x";
  const std::string outside = folder_ + "/outside";
  std::ofstream(outside) << "x";
  ASSERT_EQ(symlink(folder_.c_str(), (folder->path + "/link").c_str()), 0);
  RemoveRingFolder(folder->path);
  EXPECT_FALSE(Exists(folder->path));
  EXPECT_TRUE(Exists(outside)) << "the removal followed a link";
  close(folder->lock_fd);
}

TEST_F(RingFolderTest, OnlyAbandonedFoldersAreSwept) {
  const auto used = MakeRingFolderUnder(folder_, {});
  const auto abandoned = MakeRingFolderUnder(folder_, {});
  ASSERT_TRUE(used.ok() && abandoned.ok());
  close(abandoned->lock_fd);
  EXPECT_EQ(SweepRingFolders(folder_, 3600), 0) << "a new folder's owner may be about to lock it";
  EXPECT_EQ(SweepRingFolders(folder_, 0), 1);
  EXPECT_TRUE(Exists(used->path));
  EXPECT_FALSE(Exists(abandoned->path));
  close(used->lock_fd);
}

TEST_F(RingFolderTest, ReportsWhyAPlaceIsUnsuitable) {
  EXPECT_THAT(std::string(MakeRingFolderUnder(folder_ + "/none", {}).status().message()), HasSubstr("/none"));
  EXPECT_THAT(std::string(MakeRingFolder(folder_ + "/none").status().message()), HasSubstr("LOCKSTEP_DIR"));
  EXPECT_THAT(std::string(MakeRingFolderUnder("/proc", {.tmpfs = true}).status().message()),
              HasSubstr("not in memory"));
  const std::string deep = folder_ + "/" + std::string(200, 'x') + "/" + std::string(100, 'x');
  std::filesystem::create_directories(deep);
  EXPECT_THAT(std::string(MakeRingFolder(deep).status().message()),
              AllOf(HasSubstr("LOCKSTEP_DIR"), HasSubstr("longer than 319 characters")));
}

}  // namespace
}  // namespace lockstep
