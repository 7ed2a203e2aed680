#include "collector/host/reading_group.h"
#include "tests/support/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(ReadingGroup, GroupsHaveNamesOrNumbers) {
  EXPECT_EQ(FindReadingGroup(std::to_string(getegid())).value_or(~0u), getegid());
  EXPECT_THAT(std::string(FindReadingGroup("no-such-group-here").status().message()), HasSubstr("by its number"));
  EXPECT_FALSE(FindReadingGroup("4294967295").ok());
  EXPECT_FALSE(FindReadingGroup("-1").ok());
}

TEST(ReadingGroup, OnlyIncidentsAreReadableForTheGroup) {
  if (geteuid() != 0) GTEST_SKIP() << "another user's group needs root";
  const support::TempFolder temp;
  const std::string out = temp.path(), incident = out + "/lockstep-incident-a";
  const auto mode = [](const std::string& path) {
    struct stat info {};
    EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
    return std::pair(info.st_mode & 07777, info.st_gid);
  };
  const auto write = [](const std::string& path) {
    std::ofstream(path) << "x";
    ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  };
  std::filesystem::create_directory(incident);
  ASSERT_EQ(chmod(incident.c_str(), 0700), 0);
  write(incident + "/verdict.json");
  write(incident + "/others.lsd");
  write(out + "/precious");
  ASSERT_EQ(chown((incident + "/others.lsd").c_str(), 12345, 12345), 0);
  std::filesystem::create_symlink(out + "/precious", incident + "/link.lsd");
  std::filesystem::create_directory_symlink(out, out + "/lockstep-incident-link");
  const auto read = [&](const char* who, const std::string& path) {
    return std::system(("setpriv --reuid=23456 --regid=" + std::string(who) + " --clear-groups cat '" + path +
                        "' >/dev/null 2>&1")
                           .c_str()) == 0;
  };
  const bool setpriv = std::system("setpriv --version >/dev/null 2>&1") == 0;
  EXPECT_FALSE(setpriv && read("4321", incident + "/verdict.json")) << "by default only the owner may read";

  IncidentSharer sharer(4321);
  ASSERT_TRUE(sharer.Share(out).ok());
  EXPECT_EQ(mode(out), std::pair(0750u, gid_t{4321}));
  EXPECT_EQ(mode(incident), std::pair(02750u, gid_t{4321}));
  EXPECT_EQ(mode(incident + "/verdict.json"), std::pair(0640u, gid_t{4321}));
  EXPECT_EQ(mode(incident + "/others.lsd"), std::pair(0600u, gid_t{12345}));
  EXPECT_EQ(mode(out + "/precious"), std::pair(0600u, gid_t{0})) << "the target of a link must not change";
  // These files are created later.
  write(incident + "/n1.lsd");
  ASSERT_TRUE(sharer.Share(out).ok());
  EXPECT_EQ(mode(incident + "/n1.lsd"), std::pair(0640u, gid_t{4321}));
  if (setpriv) {
    EXPECT_TRUE(read("4321", incident + "/n1.lsd"));
    EXPECT_FALSE(read("4322", incident + "/n1.lsd"));
  }
}

}  // namespace
}  // namespace lockstep
