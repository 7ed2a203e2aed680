#include "collector/runtime_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace lockstep {
namespace {

class RuntimeFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lockstep-runtime-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    parent_ = name;
    folder_ = parent_ + "/lockstep";
    setenv("LOCKSTEP_RUNTIME_DIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("LOCKSTEP_RUNTIME_DIR");
    unlink((folder_ + "/collector").c_str());
    rmdir(folder_.c_str());
    unlink(folder_.c_str());
    rmdir(parent_.c_str());
  }
  std::string parent_, folder_;
};

TEST_F(RuntimeFolderTest, IsMadePrivateAndKeepsThePlace) {
  const absl::StatusOr<std::string> made = MakeRuntimeFolder();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(*made, folder_);
  struct stat info {};
  ASSERT_EQ(stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(ReadCollectorPlace(folder_).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(WriteCollectorPlace(folder_, {"tcp://127.0.0.1:7170", "/etc/lockstep/collector.pub"}).ok());
  const absl::StatusOr<CollectorPlace> place = ReadCollectorPlace(folder_);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->endpoint, "tcp://127.0.0.1:7170");
  EXPECT_EQ(place->server_key, "/etc/lockstep/collector.pub");
  RemoveCollectorPlace(folder_, "tcp://127.0.0.1:1");
  EXPECT_TRUE(ReadCollectorPlace(folder_).ok());
  RemoveCollectorPlace(folder_, "tcp://127.0.0.1:7170");
  EXPECT_FALSE(ReadCollectorPlace(folder_).ok());
}

TEST_F(RuntimeFolderTest, RefusesLinksAndFoldersOthersMayWriteTo) {
  ASSERT_EQ(symlink("/tmp", folder_.c_str()), 0);
  EXPECT_EQ(MakeRuntimeFolder().status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(unlink(folder_.c_str()), 0);
  ASSERT_EQ(mkdir(folder_.c_str(), 0700), 0);
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  EXPECT_EQ(MakeRuntimeFolder().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RuntimeFolderTest, AFileThatMakesNoSenseIsSaid) {
  ASSERT_TRUE(MakeRuntimeFolder().ok());
  std::ofstream(folder_ + "/collector") << "rubbish\n";
  EXPECT_EQ(ReadCollectorPlace(folder_).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lockstep
