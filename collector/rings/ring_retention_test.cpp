#include "collector/rings/ring_retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "recorder/ring/layout.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr int64_t kHour = 3600, kDay = 24 * kHour, kSecond = 1'000'000'000;

class RingRetentionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    struct statfs system {};
    if (statfs("/dev/shm", &system) != 0 || system.f_type != TMPFS_MAGIC) GTEST_SKIP() << "no /dev/shm in memory here";
    char folder[] = "/dev/shm/lockstep_retention_XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    rings_ = folder_ + "/lockstep-" + std::to_string(geteuid());
    std::filesystem::create_directory(rings_);
    ASSERT_EQ(std::system(Command("calls 3").c_str()), 0);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(rings_)) {
      if (entry.is_regular_file()) model_ = entry.path();
    }
    ASSERT_FALSE(model_.empty());
    std::filesystem::rename(model_, folder_ + "/model");
    model_ = folder_ + "/model";
    options_.shared = folder_;
    options_.bytes = 0;
  }
  void TearDown() override {
    if (child_ > 0) kill(child_, SIGKILL), waitpid(child_, nullptr, 0);
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  std::string Command(const std::string& mode) const {
    return "LOCKSTEP_DIR='" + rings_ +
           "' LOCKSTEP_JOB=train LOCKSTEP_RING_KIB=512 RANK=3 LD_PRELOAD='" LOCKSTEP_LIBRARY
           "' '" LOCKSTEP_DEATHS_PROGRAM "' " +
           mode + " >'" + folder_ + "/out' 2>&1";
  }
  // Makes the ring of a dead process whose last record has this age.
  std::string Dead(const std::string& name, int64_t quiet_s, const std::string& folder = "") const {
    const std::string path = (folder.empty() ? rings_ : folder) + "/train.0/" + name + ".ring";
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::filesystem::copy_file(model_, path);
    ring::Header header;
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.read(reinterpret_cast<char*>(&header), sizeof(header));
    for (ring::ClockTriple& triple : header.triples) {
      if (triple.ticks == 0) continue;
      triple.real_ns -= quiet_s * kSecond;
      triple.check = ring::ClockCheck(triple);
    }
    file.seekp(0);
    file.write(reinterpret_cast<const char*>(&header), sizeof(header));
    return path;
  }
  // Returns the path of the child's ring; empty until the ring is complete.
  std::string Whole() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(rings_)) {
      ring::Header header;
      std::ifstream file(entry.path(), std::ios::binary);
      if (entry.path().extension() == ".ring" && file.read(reinterpret_cast<char*>(&header), sizeof(header)) &&
          header.pid == child_ && memcmp(header.magic, ring::kMagic, sizeof(ring::kMagic)) == 0) {
        return entry.path();
      }
    }
    return "";
  }
  // Copies the ring of a running process, as if an earlier process with the same PID had written it.
  static void Twin(const std::string& path) {
    const std::string twin = std::filesystem::path(path).parent_path() / "twin.ring";
    std::filesystem::copy_file(path, twin);
    ring::Header header;
    std::fstream file(twin, std::ios::in | std::ios::out | std::ios::binary);
    file.read(reinterpret_cast<char*>(&header), sizeof(header));
    --header.start_ticks;
    file.seekp(0);
    file.write(reinterpret_cast<const char*>(&header), sizeof(header));
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      if (entry.path().extension() == ".ring") names.push_back(entry.path().stem());
    }
    return names;
  }

  std::string folder_, rings_, model_;
  RingRetentionOptions options_;
  pid_t child_ = 0;
};

TEST_F(RingRetentionTest, OldRingsOfDeadProcessesAreDeleted) {
  Dead("old", 8 * kDay);
  Dead("young", 6 * kDay);
  EXPECT_EQ(RetainRings(options_, false).removed, 0) << "the clock was set just now";
  const RetainedRings done = RetainRings(options_, true);
  EXPECT_EQ(done.removed, 1);
  EXPECT_GE(done.removed_bytes, 512u << 10);
  EXPECT_THAT(Names(), UnorderedElementsAre("young"));
  options_.age_s = 0;
  EXPECT_EQ(RetainRings(options_, true).removed, 0);
  options_.age_s = kDay;
  EXPECT_EQ(RetainRings(options_, true).removed, 1);
  EXPECT_FALSE(std::filesystem::exists(rings_ + "/train.0")) << "an empty job folder must be removed";
}

TEST_F(RingRetentionTest, RingsOfRunningProcessesStayHoweverOld) {
  child_ = fork();
  if (child_ == 0) {
    execl("/bin/sh", "sh", "-c", ("exec env " + Command("until /nowhere")).c_str(), nullptr);
    _exit(127);
  }
  std::string path;
  for (int i = 0; i < 3000 && path.empty(); ++i) {
    usleep(10000);
    path = Whole();
  }
  ASSERT_FALSE(path.empty());
  const std::string living = std::filesystem::path(path).stem();
  // A copy without a process shows when both rings are old enough.
  Twin(path);
  options_.age_s = 1;
  int removed = 0;
  for (int i = 0; i < 3000 && removed == 0; ++i) {
    usleep(10000);
    removed = RetainRings(options_, true).removed;
  }
  EXPECT_EQ(removed, 1);
  EXPECT_THAT(Names(), UnorderedElementsAre(living));
  options_.bytes = 1;
  EXPECT_EQ(RetainRings(options_, true).removed, 0);
  EXPECT_THAT(Names(), UnorderedElementsAre(living));
}

TEST_F(RingRetentionTest, TheOldestAreDeletedIfTheyTakeTooMuchSpace) {
  for (int hours = 1; hours <= 5; ++hours) Dead("h" + std::to_string(hours), hours * kHour);
  const uint64_t one = std::filesystem::file_size(model_);
  options_.bytes = 2 * one + one / 2;
  EXPECT_EQ(RetainRings(options_, false).removed, 3);
  EXPECT_THAT(Names(), UnorderedElementsAre("h1", "h2"));
  Dead("now", 0);
  options_.bytes = 1;
  RetainRings(options_, true);
  EXPECT_THAT(Names(), UnorderedElementsAre("now")) << "a program may be about to read it";
}

TEST_F(RingRetentionTest, OtherUsersFoldersNamesAndLinksAreNotDeleted) {
  Dead("liar", 8 * kDay, folder_ + "/lockstep-424242");
  Dead("outside", 8 * kDay, folder_ + "/elsewhere");
  std::filesystem::rename(rings_, folder_ + "/aside");
  std::filesystem::create_directory_symlink(folder_ + "/elsewhere", rings_);
  options_.all_users = geteuid() == 0;
  EXPECT_EQ(RetainRings(options_, true).removed, 0);
  options_.folders = {rings_, folder_ + "/nowhere"};
  EXPECT_EQ(RetainRings(options_, true).removed, 0);
  EXPECT_THAT(Names(), UnorderedElementsAre("liar", "outside"));
}

TEST_F(RingRetentionTest, RootDeletesAsTheOwnersOfFolders) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string other = folder_ + "/lockstep-424242";
  for (const char* name : {"theirs", "ours"}) {
    const std::string path = Dead(name, 8 * kDay, other);
    ASSERT_EQ(chown(path.c_str(), name[0] == 't' ? 424242 : 0, static_cast<gid_t>(-1)), 0);
  }
  ASSERT_EQ(chown(other.c_str(), 424242, static_cast<gid_t>(-1)), 0);
  ASSERT_EQ(chown((other + "/train.0").c_str(), 424242, static_cast<gid_t>(-1)), 0);
  EXPECT_EQ(RetainRings(options_, true).removed, 0) << "the agent belongs to one user";
  options_.all_users = true;
  EXPECT_EQ(RetainRings(options_, true).removed, 1);
  EXPECT_THAT(Names(), UnorderedElementsAre("ours"));
}

TEST_F(RingRetentionTest, RingsOnDisksAreNotDeleted) {
  const support::TempFolder temp;
  const std::string& folder = temp.path();
  struct statfs system {};
  const bool memory = statfs(folder.c_str(), &system) == 0 && system.f_type == TMPFS_MAGIC;
  const std::string path = Dead("shared", 8 * kDay, folder);
  options_.folders = {folder};
  EXPECT_EQ(RetainRings(options_, true).removed, memory ? 1 : 0);
}

TEST_F(RingRetentionTest, AnAgentCleansFromTimeToTimeAndReportsIt) {
  Dead("old", 8 * kDay);
  std::vector<std::string> said;
  RingRetainer retainer(options_, [&](const std::string& line) { said.push_back(line); });
  const int64_t real = int64_t{1'800'000'000} * kSecond;
  for (int i = 0; i < 3000 && said.empty(); ++i) {
    retainer.Tick(i, real + i);
    usleep(10000);
  }
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], HasSubstr("removed 1 ring of processes that are gone"));
  EXPECT_EQ(retainer.removed(), 1u);
  EXPECT_TRUE(Names().empty());
}

}  // namespace
}  // namespace lockstep
