#include "collector/common/runtime_folder.h"
#include "tests/support/environment.h"
#include "tests/support/files.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>

namespace lockstep {
namespace {

class RuntimeFolderTest : public ::testing::Test {
 protected:
  const support::TempFolder temp_;
  const std::string parent_ = temp_.path(), folder_ = parent_ + "/lockstep";
  const support::EnvironmentVariable variable_{"LOCKSTEP_RUNTIME_DIR", folder_};
};

TEST_F(RuntimeFolderTest, IsCreatedPrivateAndKeepsThePlace) {
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

TEST_F(RuntimeFolderTest, RefusesLinksAndFoldersThatOthersMayWrite) {
  ASSERT_EQ(symlink("/tmp", folder_.c_str()), 0);
  EXPECT_EQ(MakeRuntimeFolder().status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(unlink(folder_.c_str()), 0);
  ASSERT_EQ(mkdir(folder_.c_str(), 0700), 0);
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  EXPECT_EQ(MakeRuntimeFolder().status().code(), absl::StatusCode::kFailedPrecondition);
}

// Runs `work` in a child as another user, so that tests that run as root cover both sides.
int AsNobody(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0)
    _exit(setgroups(0, nullptr) == 0 && setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0
              ? work()
              : 100);
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(RuntimeFolderTest, AllMayReadWhatRootPublishesAndOnlyRootMayPublishThere) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  ASSERT_EQ(chmod(parent_.c_str(), 0755), 0);
  ASSERT_TRUE(MakeRuntimeFolder().ok());
  const auto read = [&] { return static_cast<int>(ReadCollectorPlace(folder_).status().code()); };
  const auto write = [&] { return static_cast<int>(MakeRuntimeFolder().status().code()); };
  ASSERT_TRUE(WriteCollectorPlace(folder_, {"tcp://127.0.0.1:7170", ""}).ok());
  EXPECT_EQ(AsNobody(read), static_cast<int>(absl::StatusCode::kPermissionDenied))
      << "a folder that only root may enter";
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  EXPECT_EQ(AsNobody(read), static_cast<int>(absl::StatusCode::kPermissionDenied)) << "written for root only";
  ASSERT_TRUE(WriteCollectorPlace(folder_, {"tcp://127.0.0.1:7170", ""}).ok());
  EXPECT_EQ(AsNobody(read), 0);
  EXPECT_EQ(AsNobody(write), static_cast<int>(absl::StatusCode::kFailedPrecondition)) << "others may only read there";
  ASSERT_EQ(chmod(folder_.c_str(), 0775), 0);
  EXPECT_EQ(AsNobody(read), static_cast<int>(absl::StatusCode::kFailedPrecondition)) << "a group may write there";
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  ASSERT_EQ(chown(folder_.c_str(), 65533, 65533), 0);
  EXPECT_EQ(AsNobody(read), static_cast<int>(absl::StatusCode::kFailedPrecondition)) << "a third user's folder";
  EXPECT_EQ(read(), static_cast<int>(absl::StatusCode::kFailedPrecondition))
      << "root must not trust another user's folder";
}

TEST_F(RuntimeFolderTest, AMalformedFileIsReported) {
  ASSERT_TRUE(MakeRuntimeFolder().ok());
  std::ofstream(folder_ + "/collector") << "rubbish\n";
  EXPECT_EQ(ReadCollectorPlace(folder_).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lockstep
