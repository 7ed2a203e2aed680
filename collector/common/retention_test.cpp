#include "collector/common/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kDay = 86400, kNow = 1'800'000'000;

class RetentionTest : public support::FolderTest {
 protected:
  void SetUp() override {
    request_.now_s = kNow;
    request_.say = [this](const std::string& line) { said_.push_back(line); };
  }
  std::string Make(const std::string& job, int64_t days_old, size_t kib = 4) {
    const std::string path = folder_ + "/lockstep-incident-" + job;
    std::filesystem::create_directory(path);
    std::ofstream(path + "/manifest.json")
        << "{\n  \"format\": 1,\n  \"captured_real_ns\": " << (kNow - days_old * kDay) << "000000000\n}\n";
    std::ofstream(path + "/verdict.txt") << "HUNG\n";
    std::ofstream(path + "/explore.html") << "<!DOCTYPE html>\n";
    std::ofstream(path + "/n1.lsd") << std::string(kib << 10, 'x');
    return path;
  }
  Retained Retain() {
    said_.clear();
    const absl::StatusOr<Retained> done = RetainIncidents(folder_, request_);
    EXPECT_TRUE(done.ok()) << done.status();
    return done.ok() ? *done : Retained();
  }
  std::vector<std::string> Left() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    for (std::string& name : names) {
      if (name.rfind("lockstep-incident-", 0) == 0) name = name.substr(18);
    }
    return names;
  }
  RetentionRequest request_;
  std::vector<std::string> said_;
};

TEST_F(RetentionTest, OldIncidentsAreDeletedButNeverTheNewest) {
  Make("a", 30), Make("b", 8), Make("c", 6);
  request_.dry_run = true;
  EXPECT_EQ(Retain().removed, 2);
  EXPECT_THAT(said_, ElementsAre(HasSubstr("would remove"), HasSubstr("lockstep-incident-b: 8 days old")));
  EXPECT_THAT(Left(), ElementsAre("a", "b", "c"));
  request_.dry_run = false;
  EXPECT_EQ(Retain().removed, 2);
  EXPECT_THAT(Left(), ElementsAre("c"));
  request_.now_s += 100 * kDay;
  EXPECT_EQ(Retain().removed, 0);
  EXPECT_THAT(Left(), ElementsAre("c")) << "the newest";
}

TEST_F(RetentionTest, TheOldestAreDeletedIfTheyTakeTooMuchSpace) {
  Make("a", 3, 400), Make("b", 2, 400), Make("c", 1, 400);
  request_.limits.bytes = 900 << 10;
  EXPECT_EQ(Retain().removed, 1);
  EXPECT_THAT(Left(), ElementsAre("b", "c"));
  request_.limits.bytes = 1;
  EXPECT_EQ(Retain().removed, 1);
  EXPECT_THAT(Left(), ElementsAre("c"));
  Make("a", 300, 400);
  request_.limits = {0, 0};
  EXPECT_EQ(Retain().removed, 0) << "no limits";
}

TEST_F(RetentionTest, AnIncidentBeingGatheredStays) {
  std::ofstream(Make("a", 30) + "/.gathering.json") << "{}";
  Make("b", 1);
  request_.say_kept = true;
  EXPECT_EQ(Retain().removed, 0);
  EXPECT_THAT(said_, ElementsAre(HasSubstr("still being gathered"), HasSubstr("the newest")));
}

TEST_F(RetentionTest, OtherFilesStay) {
  const std::string notes = Make("notes", 30), folder = Make("folder", 30), link = Make("link", 30);
  std::ofstream(notes + "/my notes.txt") << "dear diary";
  std::filesystem::create_directory(folder + "/copies.lsd");
  std::filesystem::create_symlink("/etc/passwd", link + "/n2.lsd");
  std::filesystem::create_directory(folder_ + "/lockstep-incident-of-another-tool");
  std::ofstream(folder_ + "/lockstep-incident-file") << "x";
  std::filesystem::create_directory(folder_ + "/outside");
  std::filesystem::create_directory_symlink(Make("elsewhere", 30), folder_ + "/lockstep-incident-symlink");
  std::filesystem::rename(folder_ + "/lockstep-incident-elsewhere", folder_ + "/outside/precious");
  if (geteuid() == 0) {
    ASSERT_EQ(chown(Make("others", 30).c_str(), 1000, 1000), 0);
  }
  Make("z", 1);
  const std::vector<std::string> before = Left();
  EXPECT_EQ(Retain().removed, 0);
  EXPECT_EQ(Left(), before);
  EXPECT_TRUE(std::filesystem::exists(notes + "/n1.lsd"));
  EXPECT_TRUE(std::filesystem::exists("/etc/passwd"));
  request_.say_kept = true;
  Retain();
  EXPECT_THAT(said_, ::testing::Contains(HasSubstr("contains my notes.txt")));
  const std::string way = folder_ + ".link";
  std::filesystem::create_directory_symlink(folder_, way);
  EXPECT_THAT(std::string(RetainIncidents(way, request_).status().message()), HasSubstr("give the folder itself"));
  std::filesystem::remove(way);
}

TEST_F(RetentionTest, AnIncidentThatGotAForeignFileMeanwhileStaysWhole) {
  Make("a", 30), Make("b", 1);
  const std::string late = Make("late", 20);
  request_.say = [&](const std::string& line) {
    said_.push_back(line);
    if (said_.size() == 1) std::ofstream(late + "/my notes.txt") << "dear diary";
  };
  const Retained done = Retain();
  EXPECT_EQ(done.removed, 1);
  EXPECT_EQ(done.failed, 1);
  EXPECT_THAT(said_, ElementsAre(HasSubstr("removed"), HasSubstr("lockstep-incident-late: Directory not empty")));
  EXPECT_THAT(Left(), ElementsAre("b", "late"));
  for (const char* name : {"manifest.json", "verdict.txt", "n1.lsd", "my notes.txt"})
    EXPECT_TRUE(std::filesystem::exists(late + "/" + name)) << name;
}

TEST_F(RetentionTest, AnInterruptedRemovalIsFinishedByTheNextProcess) {
  Make("a", 1), Make("b", 1);
  std::filesystem::rename(folder_ + "/lockstep-incident-a", folder_ + "/.removing-lockstep-incident-a");
  EXPECT_EQ(Retain().removed, 0);
  EXPECT_THAT(Left(), ElementsAre("b"));
}

TEST_F(RetentionTest, AClockThatWasSetBackRemovesNothing) {
  Make("a", 1), Make("b", 0);
  request_.now_s = kNow - 400 * kDay;
  EXPECT_EQ(Retain().removed, 0);
  // If the manifest has no time, the last write counts.
  std::ofstream(folder_ + "/lockstep-incident-a/manifest.json") << "{\"captured_real_ns\": -5}";
  EXPECT_EQ(Retain().removed, 0);
}

TEST_F(RetentionTest, AClockThatWasSetForwardRemovesNothingForAnHour) {
  TrustedClock clock;
  int64_t mono = 1'000'000'000, real = kNow * 1'000'000'000;
  const int64_t minute = 60'000'000'000;
  EXPECT_TRUE(clock.Trust(mono, real));
  EXPECT_TRUE(clock.Trust(mono += minute, real += minute));
  EXPECT_FALSE(clock.Trust(mono += minute, real += 400 * kDay * 1'000'000'000));
  for (int i = 0; i < 59; ++i) EXPECT_FALSE(clock.Trust(mono += minute, real += minute));
  EXPECT_FALSE(clock.Trust(mono += minute / 2, real -= 400 * kDay * 1'000'000'000)) << "the clock was set back again";
  for (int i = 0; i < 59; ++i) EXPECT_FALSE(clock.Trust(mono += minute, real += minute));
  EXPECT_TRUE(clock.Trust(mono += minute, real += minute));
  Make("a", 1), Make("b", 0);
  request_.now_s = kNow + 400 * kDay;
  request_.by_age = false;
  EXPECT_EQ(Retain().removed, 0);
  request_.limits.bytes = 1;
  EXPECT_EQ(Retain().removed, 1) << "the limit in bytes needs no clock";
}

TEST_F(RetentionTest, DeletingWorksOnAFullDisk) {
  if (geteuid() != 0) GTEST_SKIP() << "needs its own file system";
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=1m") != 0) {
      _exit(77);
    }
    Make("a", 30, 100), Make("b", 1, 100);
    std::ofstream fill(folder_ + "/fill");
    const std::string block(4096, 'x');
    while (fill.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
    const Retained done = Retain();
    _exit(done.removed == 1 && done.failed == 0 && !std::filesystem::exists(folder_ + "/lockstep-incident-a") ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "cannot create a mount namespace here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lockstep
