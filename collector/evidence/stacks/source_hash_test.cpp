#include "collector/evidence/stacks/source_hash.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "analyzer/util/unique_fd.h"

namespace lockstep {
namespace {

class SourceHashTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "source-hash-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Makes a file that looks as if it was written an hour ago.
  std::string Old(const char* name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    timespec times[2];
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= 3600;
    times[1] = times[0];
    EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    return path;
  }

  std::string folder_;
  UniqueFd root_{OpenRootOf(getpid())};
};

TEST_F(SourceHashTest, AFileHasItsSha256) {
  EXPECT_EQ(SourceHash(getpid(), root_.get(), Old("train.py", "abc")),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(SourceHashTest, AFileThatChangedSinceTheProcessStartedIsUnknown) {
  std::ofstream(folder_ + "/train.py") << "abc";
  EXPECT_EQ(SourceHash(getpid(), root_.get(), folder_ + "/train.py"), "");
}

TEST_F(SourceHashTest, HostilePathsAreUnknownAndHoldNobody) {
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  for (const std::string& path : {std::string(), std::string("train.py"), folder_, folder_ + "/pipe", folder_ + "/none",
                                  std::string("/dev/zero"), Old("large.py", std::string(5 << 20, 'x'))}) {
    EXPECT_EQ(SourceHash(getpid(), root_.get(), path), "") << path;
  }
  EXPECT_EQ(SourceHash(getpid(), -1, Old("train.py", "abc")), "");
  EXPECT_EQ(SourceHash(1 << 30, root_.get(), Old("train.py", "abc")), "");
}

}  // namespace
}  // namespace lockstep
