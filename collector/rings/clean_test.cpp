#include "collector/rings/clean.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "recorder/ring/layout.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CleanTest : public support::FolderTest {
 protected:
  void SetUp() override {
    options_.folder = folder_ + "/rings";
    std::filesystem::create_directory(options_.folder);
    // Records a ring of a process that has exited, as a model for others.
    Run("calls 3");
    ASSERT_THAT(Rings(), SizeIs(1));
    model_ = folder_ + "/model";
    std::filesystem::rename(Rings()[0], model_);
  }
  void TearDown() override {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  void Run(const std::string& mode) const { ASSERT_EQ(std::system(Command(mode).c_str()), 0); }
  std::string Command(const std::string& mode) const {
    return "LOCKSTEP_DIR='" + options_.folder +
           "' LOCKSTEP_JOB=train LOCKSTEP_RING_KIB=512 RANK=3 LD_PRELOAD='" LOCKSTEP_LIBRARY
           "' '" LOCKSTEP_DEATHS_PROGRAM "' " +
           mode + " >'" + folder_ + "/out' 2>&1";
  }
  // Starts the program, and waits until its ring is complete.
  void StartHost(const std::string& mode) {
    const pid_t child = fork();
    if (child == 0) {
      execl("/bin/sh", "sh", "-c", ("exec env " + Command(mode)).c_str(), nullptr);
      _exit(127);
    }
    children_.push_back(child);
    for (int i = 0; i < 3000; ++i) {
      for (const std::string& path : Rings()) {
        ring::Header header;
        std::ifstream file(path);
        if (file.read(reinterpret_cast<char*>(&header), sizeof(header)) && header.pid == child &&
            memcmp(header.magic, ring::kMagic, sizeof(ring::kMagic)) == 0) {
          return;
        }
      }
      usleep(10000);
    }
    FAIL() << "no ring appeared";
  }
  std::vector<std::string> Rings() const {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(options_.folder)) {
      if (entry.is_regular_file()) paths.push_back(entry.path());
    }
    return paths;
  }
  // Writes a copy of the model with another header.
  std::string Forge(const std::string& name, const std::function<void(ring::Header*)>& change) const {
    const std::string path = options_.folder + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::filesystem::copy_file(model_, path);
    ring::Header header;
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.read(reinterpret_cast<char*>(&header), sizeof(header));
    change(&header);
    file.seekp(0);
    file.write(reinterpret_cast<const char*>(&header), sizeof(header));
    return path;
  }
  std::string Clean(bool expected = true) {
    const std::string report = folder_ + "/report";
    FILE* out = fopen(report.c_str(), "w");
    cleaned_ = Cleaned();
    EXPECT_EQ(CleanRings(options_, out, &cleaned_, &error_), expected) << error_;
    fclose(out);
    std::ifstream file(report);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string model_, error_;
  CleanOptions options_;
  Cleaned cleaned_;
  std::vector<pid_t> children_;
};

TEST_F(CleanTest, RingsOfRunningProcessesStay) {
  StartHost("until /nowhere");
  const std::string stale = Forge("train.0/host.1.0.ring", [](ring::Header*) {});
  options_.dry_run = true;
  EXPECT_THAT(Clean(), HasSubstr("would remove " + stale + ": rank 3 of job train, pid "));
  EXPECT_THAT(Rings(), SizeIs(2));
  options_.dry_run = false;
  const std::string report = Clean();
  EXPECT_THAT(report, HasSubstr("removed " + stale));
  EXPECT_THAT(report, HasSubstr(": rank 3 of job train, pid " + std::to_string(children_[0]) + " is running\n"));
  EXPECT_EQ(cleaned_.removed, 1);
  EXPECT_EQ(cleaned_.kept, 1);
  EXPECT_GE(cleaned_.bytes, 512u << 10);
  ASSERT_THAT(Rings(), SizeIs(1));
  kill(children_[0], SIGKILL);
  waitpid(children_[0], nullptr, 0);
  children_.clear();
  EXPECT_THAT(Clean(), HasSubstr(" is gone\n"));
  EXPECT_THAT(Rings(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(options_.folder + "/train.0"));
}

TEST_F(CleanTest, AFolderThatWasEmptyBeforeStays) {
  Forge("a.ring", [](ring::Header*) {});
  Forge("b/a.ring", [](ring::Header*) {});
  std::filesystem::create_directory(options_.folder + "/c");
  EXPECT_THAT(Clean(), HasSubstr("removed " + options_.folder + "/a.ring"));
  EXPECT_EQ(cleaned_.removed, 2);
  EXPECT_FALSE(std::filesystem::exists(options_.folder + "/b"));
  EXPECT_TRUE(std::filesystem::exists(options_.folder + "/c"));
  Forge("a.ring", [](ring::Header*) {});
  std::filesystem::create_directory(options_.folder + "/b");
  Clean();
  EXPECT_TRUE(std::filesystem::exists(options_.folder + "/b")) << "another folder's ring was removed, not one of b";
}

TEST_F(CleanTest, ReusedProcessNumbersAreRecognized) {
  StartHost("until /nowhere");
  const pid_t living = children_[0];
  const std::string live = Rings().at(0);
  ring::Header own;
  std::ifstream(live).read(reinterpret_cast<char*>(&own), sizeof(own));
  // The PID is the same, but the ring belongs to an earlier process, an earlier boot, another container, or the program
  // before exec.
  Forge("job.0/start.ring", [&](ring::Header* h) { h->pid = living, h->start_ticks = own.start_ticks - 1; });
  Forge("job.1/boot.ring", [&](ring::Header* h) {
    h->pid = living, h->start_ticks = own.start_ticks;
    h->boot_id[0] = h->boot_id[0] == 'a' ? 'b' : 'a';
  });
  Forge("job.2/exec.ring", [&](ring::Header* h) { h->pid = living, h->start_ticks = own.start_ticks; });
  Forge("job.3/container.ring", [&](ring::Header* h) {
    h->pid = living, h->start_ticks = own.start_ticks;
    h->pid_namespace_inode = 1;
  });
  const std::string report = Clean();
  EXPECT_THAT(report, HasSubstr("start.ring: rank 3 of job train, pid " + std::to_string(living) +
                                " is gone (another process has its PID now)"));
  EXPECT_THAT(report, HasSubstr("boot.ring: rank 3 of job train, from an earlier boot"));
  EXPECT_THAT(report,
              HasSubstr("exec.ring: rank 3 of job train, pid " + std::to_string(living) + " now runs another program"));
  struct stat space {};
  ASSERT_EQ(stat("/proc/self/ns/pid", &space), 0);
  const bool sees_all = space.st_ino == 0xEFFFFFFC;
  EXPECT_THAT(report, HasSubstr(sees_all ? "of another container is gone" : "which cannot be seen from here"));
  EXPECT_EQ(cleaned_.removed, sees_all ? 4 : 3);
  EXPECT_TRUE(std::filesystem::exists(live));
}

TEST_F(CleanTest, ARunningProcessInAnotherContainerIsFound) {
  struct stat space {};
  if (stat("/proc/self/ns/pid", &space) != 0 || space.st_ino != 0xEFFFFFFC)
    GTEST_SKIP() << "this test is not in the host's pid namespace";
  if (geteuid() != 0 || std::system("unshare -p -f true 2>/dev/null") != 0)
    GTEST_SKIP() << "cannot create namespaces here";
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c",
          ("exec unshare -m -p -f --mount-proc --kill-child sh -c '" +
           [&] {
             std::string quoted;
             for (char c : Command("until /nowhere")) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
             return quoted;
           }() +
           "'")
              .c_str(),
          nullptr);
    _exit(127);
  }
  children_.push_back(child);
  std::string report;
  for (int i = 0; i < 1000 && report.find("of another container is running") == std::string::npos; ++i) {
    usleep(20000);
    options_.dry_run = true;
    report = Clean();
  }
  EXPECT_THAT(report, HasSubstr("of another container is running"));
  options_.dry_run = false;
  Clean();
  EXPECT_THAT(Rings(), SizeIs(1));
}

TEST_F(CleanTest, LinksAndOtherUsersFilesAreNotDeleted) {
  const std::string outside = folder_ + "/outside";
  std::filesystem::create_directory(outside);
  std::filesystem::copy_file(model_, outside + "/precious.ring");
  std::filesystem::create_directory_symlink(outside, options_.folder + "/linked.0");
  std::filesystem::create_symlink(outside + "/precious.ring", options_.folder + "/link.ring");
  std::filesystem::create_directory(options_.folder + "/folder.ring");
  ASSERT_EQ(mkfifo((options_.folder + "/pipe.ring").c_str(), 0600), 0);
  std::ofstream(options_.folder + "/notes.txt") << "not ours";
  std::ofstream(options_.folder + "/noise.ring") << "not a ring";
  if (geteuid() == 0) {
    const std::string others = Forge("others.0/host.ring", [](ring::Header*) {});
    ASSERT_EQ(chown(others.c_str(), 65534, 65534), 0);
  }
  const std::string report = Clean();
  EXPECT_EQ(cleaned_.removed, 0) << report;
  EXPECT_TRUE(std::filesystem::exists(outside + "/precious.ring"));
  EXPECT_TRUE(std::filesystem::is_symlink(options_.folder + "/link.ring"));
  EXPECT_TRUE(std::filesystem::exists(options_.folder + "/noise.ring")) << "it may be a ring that is being created";
  if (geteuid() == 0) {
    EXPECT_THAT(report, HasSubstr("host.ring: it belongs to another user\n"));
  }
  const std::string link = folder_ + "/way";
  std::filesystem::create_directory_symlink(options_.folder, link);
  options_.folder = link;
  Clean(false);
  EXPECT_THAT(error_, HasSubstr("give the folder itself"));
}

TEST_F(CleanTest, ALinkToARingInMemoryIsRemovedLongAfterItsProcess) {
  const std::string job = options_.folder + "/other.0/";
  std::filesystem::create_directories(job);
  const int ring = memfd_create("lives.ring", MFD_CLOEXEC);
  ASSERT_GE(ring, 0);
  const std::string target = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(ring);
  const timespec old[2] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
  for (const char* name : {"lives.ring", "young.ring", "old.ring"}) {
    ASSERT_EQ(symlink(target.c_str(), (job + name).c_str()), 0);
    if (std::string(name) == "young.ring") continue;
    ASSERT_EQ(utimensat(AT_FDCWD, (job + name).c_str(), old, AT_SYMLINK_NOFOLLOW), 0);
  }
  const std::string report = Clean();
  EXPECT_THAT(report, HasSubstr("lives.ring: a ring in the memory of a running process"));
  EXPECT_TRUE(std::filesystem::is_symlink(job + "lives.ring"));
  EXPECT_TRUE(std::filesystem::is_symlink(job + "young.ring")) << "its process may be invisible from here";
  EXPECT_FALSE(std::filesystem::is_symlink(job + "old.ring"));
  close(ring);
}

TEST_F(CleanTest, OnlyOldRingsAreRemovedOnRequest) {
  Forge("job.0/fresh.ring", [](ring::Header*) {});
  options_.older_than_s = 3600;
  EXPECT_THAT(Clean(), HasSubstr("but only recently"));
  options_.older_than_s = 0;
  Clean();
  EXPECT_EQ(cleaned_.removed, 1);
  // The clock may have been set back, so a ring may appear newer than now.
  Forge("job.0/future.ring", [](ring::Header* h) {
    for (ring::ClockTriple& triple : h->triples) {
      if (triple.ticks == 0) continue;
      triple.real_ns += 5'000'000'000;
      triple.check = ring::ClockCheck(triple);
    }
  });
  Clean();
  EXPECT_EQ(cleaned_.removed, 1);
  EXPECT_THAT(Rings(), IsEmpty());
}

}  // namespace
}  // namespace lockstep
