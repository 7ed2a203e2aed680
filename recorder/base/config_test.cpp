// How the recorder uses configuration files: which settings apply, and that bad files never harm its process.
#include "recorder/base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>

#include "recorder/base/reading_group.h"
#include "recorder/ring/reader.h"
#include "tests/support/preload.h"

namespace lockstep::recorder {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Value(const ConfigValues& values, const char* key) {
  for (size_t i = 0; i < ring::kRecorderSettingCount; ++i) {
    if (strcmp(ring::kRecorderSettings[i].key, key) == 0) return values.text[i];
  }
  return "no such key";
}

std::unique_ptr<ConfigValues> Scan(const std::string& text, size_t piece = 7) {
  auto values = std::make_unique<ConfigValues>();
  memset(values.get(), 0, sizeof(*values));
  ConfigScan scan;
  for (size_t at = 0; at < text.size(); at += piece)
    scan.Feed(text.data() + at, std::min(piece, text.size() - at), values.get());
  scan.End(values.get());
  return values;
}

TEST(ConfigScanTest, OnlyTheRecordersSectionCounts) {
  const auto values = Scan(
      "gpu = full\n[agent]\ngpu = x\nhost = y\n# c\n [Recorder] \r\n GPU = off \nRing_KiB=512\nnonsense\n= x\nhost "
      "=\n[common]\ngpu = z\n");
  EXPECT_EQ(Value(*values, "gpu"), "off");
  EXPECT_EQ(Value(*values, "ring-kib"), "512");
  EXPECT_EQ(Value(*values, "host"), "");
}

TEST(ConfigScanTest, TheGroupMayBeInTheCommonSection) {
  EXPECT_EQ(Value(*Scan("[common]\ngroup = ops\nhost = x"), "group"), "ops");
  EXPECT_EQ(Value(*Scan("[common]\ngroup = ops\nhost = x"), "host"), "");
  EXPECT_EQ(Value(*Scan("[recorder]\ngroup = own\n[common]\ngroup = ops"), "group"), "own");
}

TEST(ConfigScanTest, LongLinesAndZeroBytesAreSkipped) {
  const std::string longest(ring::kMostConfigLine - 7, 'x');
  EXPECT_EQ(Value(*Scan("[recorder]\ndeny = " + longest), "deny"), longest);
  EXPECT_EQ(Value(*Scan("[recorder]\ndeny = " + longest + "y\ngpu = off"), "deny"), "");
  EXPECT_EQ(Value(*Scan("[recorder]\ndeny = " + longest + "y\ngpu = off"), "gpu"), "off");
  EXPECT_EQ(Value(*Scan(std::string("[recorder]\nhost = a\0b\ngpu = off", 31)), "host"), "");
}

TEST(ConfigScanTest, RandomBytesInAnyPiecesAreHarmless) {
  std::mt19937 random(11);
  const char* const words[] = {
      "[recorder]", "[common]", "gpu", "group", "=",    "\n",   " ",
      "off",        "[",        "]",   "#",     "deny", "\r\n", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"};
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (size_t n = random() % 60; n > 0; --n)
      text += random() % 6 == 0 ? std::string(1, static_cast<char>(random())) : words[random() % std::size(words)];
    const auto whole = Scan(text, 4096), pieces = Scan(text, 1 + random() % 9);
    ASSERT_EQ(memcmp(whole.get(), pieces.get(), sizeof(*whole)), 0) << text;
    for (const auto& value : whole->text) ASSERT_NE(memchr(value, 0, sizeof(value)), nullptr);
  }
}

TEST(ReadingGroupTest, LinesOfTheGroupFileAreParsed) {
  EXPECT_EQ(GroupOfLine("ops:x:500:alice,bob", "ops"), 500);
  EXPECT_EQ(GroupOfLine("ops:x:500:", "op"), -1);
  EXPECT_EQ(GroupOfLine("ops:x", "ops"), -1);
  EXPECT_EQ(GroupOfLine("ops:x::", "ops"), -1);
  EXPECT_EQ(GroupOfLine("ops:x:99999999999:", "ops"), -1);
  EXPECT_EQ(GroupOfLine(":x:0:", ""), -1);
  EXPECT_EQ(FindGroup("1234"), 1234);
  EXPECT_EQ(FindGroup("root"), 0);
  EXPECT_EQ(FindGroup("4294967295"), -1) << "as a group id it would mean 'do not change'";
  EXPECT_EQ(FindGroup("-1"), -1);
  EXPECT_EQ(FindGroup("no-such-group-here"), -1);
}

class ConfigTest : public support::PreloadRuns {
 protected:
  void Write(const std::string& text, mode_t mode = 0644) {
    std::ofstream(folder_ + "/conf") << text;
    ASSERT_EQ(chmod((folder_ + "/conf").c_str(), mode), 0);
  }
  std::string Slurp(const std::string& name) const { return support::ReadFile(folder_ + "/" + name); }
  // Runs a program that calls NCCL, with `prefix` before the command.
  int Run(const std::string& environment = "", const std::string& prefix = "") {
    return std::system(("cd '" + folder_ + "'; env LOCKSTEP_CONFIG='" + folder_ +
                        "/conf' RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 " + environment +
                        " LD_PRELOAD='" LOCKSTEP_LIBRARY "' " + prefix +
                        " timeout 60 '" LOCKSTEP_DEATHS_PROGRAM "' calls 20 >out 2>err")
                           .c_str());
  }
  static mode_t Mode(const std::string& path, gid_t* group = nullptr) {
    struct stat info {};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    if (group != nullptr) *group = info.st_gid;
    return info.st_mode & 07777;
  }
  std::string Section() const { return "[recorder]\ndir = " + folder_ + "/rings\nring-kib = 512\njob = by-file\n"; }
};

TEST_F(ConfigTest, TheEnvironmentOverridesTheFile) {
  Write(Section());
  ASSERT_EQ(Run(), 0) << Slurp("err");
  EXPECT_EQ(OnlyRing().process.job, "by-file");
  ASSERT_EQ(Run("LOCKSTEP_JOB=by-environment LOCKSTEP_DIR='" + folder_ + "/other'"), 0);
  EXPECT_EQ(OnlyRing(folder_ + "/other").process.job, "by-environment");
}

TEST_F(ConfigTest, AFolderWithTooLongAPathIsReported) {
  const std::string job = "long-path-" + std::to_string(getpid());
  const std::string usual = "/dev/shm/lockstep-" + std::to_string(geteuid()) + "/" + job + ".0";
  ASSERT_EQ(Run("LOCKSTEP_CONFIG= LOCKSTEP_RING_KIB=512 LOCKSTEP_JOB=" + job + " LOCKSTEP_DIR='" + folder_ + "/" +
                std::string(320, 'x') + "'"),
            0);
  EXPECT_THAT(OnlyRing(usual).process.note, HasSubstr("LOCKSTEP_DIR is longer than 319 characters; using /dev/shm/"));
  std::filesystem::remove_all(usual);
}

TEST_F(ConfigTest, RecordOffIsAKillSwitch) {
  Write(Section() + "record = off\n");
  ASSERT_EQ(Run(), 0);
  EXPECT_THAT(RingPaths(), IsEmpty());
  EXPECT_EQ(Slurp("err"), "");
  ASSERT_EQ(Run("LOCKSTEP=1"), 0);
  EXPECT_EQ(RingPaths().size(), 1u) << "the environment overrides the file";
}

TEST_F(ConfigTest, UntrustedAndUnreadableFilesAreIgnored) {
  const std::string dir = "LOCKSTEP_RING_KIB=512 LOCKSTEP_DIR='" + folder_ + "/rings'";
  Write("[recorder]\nrecord = off\n", 0646);
  ASSERT_EQ(Run(dir), 0);
  EXPECT_THAT(OnlyRing().process.note, HasSubstr("is world-writable"));
  std::filesystem::remove_all(folder_ + "/rings");
  Write(std::string(40'000, '\n') + "[recorder]\nrecord = off\n");
  ASSERT_EQ(Run(dir), 0);
  EXPECT_THAT(OnlyRing().process.note, HasSubstr("larger than 32 KiB"));
  std::filesystem::remove(folder_ + "/conf");
  for (const char* make :
       {"mkfifo conf", "rm -f conf; mkdir conf", "rmdir conf; ln -s conf conf", "rm conf; ln -s /dev/zero conf"}) {
    std::filesystem::remove_all(folder_ + "/rings");
    ASSERT_EQ(std::system(("cd '" + folder_ + "' && " + make).c_str()), 0);
    ASSERT_EQ(Run(dir), 0) << make;
    EXPECT_EQ(RingPaths().size(), 1u) << make;
  }
}

TEST_F(ConfigTest, AMissingFileCostsOneOpen) {
  if (std::system("strace -V >/dev/null 2>&1") != 0) GTEST_SKIP() << "no strace";
  if (std::system("strace -o /dev/null true 2>/dev/null") != 0) GTEST_SKIP() << "strace may not trace here";
  ASSERT_EQ(Run("LOCKSTEP_CONFIG= LOCKSTEP_RING_KIB=512 LOCKSTEP_DIR='" + folder_ + "/rings'",
                "strace -f -e trace=open,openat -o trace"),
            0);
  const std::string trace = Slurp("trace");
  size_t times = 0;
  for (size_t at = 0; (at = trace.find("\"/etc/lockstep.conf\"", at)) != std::string::npos; ++at) ++times;
  EXPECT_EQ(RingPaths().size(), 1u);
  // timeout never opens the file, or opens it once like the program.
  EXPECT_GE(times, 1u);
  EXPECT_LE(times, 2u) << trace;
}

TEST_F(ConfigTest, OnlyTheOwnerReadsRingsUnlessAGroupIsNamed) {
  Write(Section());
  ASSERT_EQ(Run(), 0);
  EXPECT_EQ(Mode(folder_ + "/rings"), 0700u);
  EXPECT_EQ(Mode(RingPaths().at(0)), 0600u);
  EXPECT_EQ(Mode(std::filesystem::path(RingPaths().at(0)).parent_path()), 0700u);
  std::filesystem::remove_all(folder_ + "/rings");
  if (geteuid() != 0) GTEST_SKIP() << "another user's group needs root";
  Write(Section() + "group = 4321\n");
  ASSERT_EQ(Run(), 0);
  gid_t group = 0;
  EXPECT_EQ(Mode(folder_ + "/rings", &group), 0750u);
  EXPECT_EQ(group, 4321u);
  EXPECT_EQ(Mode(std::filesystem::path(RingPaths().at(0)).parent_path(), &group), 0750u);
  EXPECT_EQ(group, 4321u);
  EXPECT_EQ(Mode(RingPaths().at(0), &group), 0640u);
  EXPECT_EQ(group, 4321u);
  // A member of the group can read the ring; other users cannot.
  ASSERT_EQ(chmod(folder_.c_str(), 0711), 0);
  const std::string ring = "'" + RingPaths().at(0) + "' >/dev/null 2>&1";
  if (std::system("setpriv --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no setpriv";
  EXPECT_EQ(std::system(("setpriv --reuid=12345 --regid=4321 --clear-groups cat " + ring).c_str()), 0);
  EXPECT_NE(std::system(("setpriv --reuid=12345 --regid=12345 --clear-groups cat " + ring).c_str()), 0);
  EXPECT_NE(std::system(("setpriv --reuid=12345 --regid=4321 --clear-groups sh -c 'echo >> \"$0\"' " + ring).c_str()),
            0)
      << "nobody else may write";
}

TEST_F(ConfigTest, AGroupWithoutTheProcessIsReportedInTheNote) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  if (std::system("setpriv --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no setpriv";
  Write(Section() + "group = 4321\n");
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  if (std::system("setpriv --reuid=12345 --regid=12345 --clear-groups test -x '" LOCKSTEP_DEATHS_PROGRAM "'") != 0)
    GTEST_SKIP() << "other users cannot run programs in the build folder";
  ASSERT_EQ(Run("", "setpriv --reuid=12345 --regid=12345 --clear-groups"), 0) << Slurp("err");
  EXPECT_THAT(OnlyRing().process.note, HasSubstr("not a member of the group"));
  EXPECT_EQ(Mode(RingPaths().at(0)), 0600u);
  std::filesystem::remove_all(folder_ + "/rings");
  Write(Section() + "group = no-such-group-here\n");
  ASSERT_EQ(Run(), 0);
  EXPECT_THAT(OnlyRing().process.note, HasSubstr("no such group"));
}

}  // namespace
}  // namespace lockstep::recorder
