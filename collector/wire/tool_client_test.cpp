#include "collector/wire/tool_client.h"

#include <stdlib.h>

#include "collector/common/runtime_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ToolClientTest : public support::FolderTest {
 protected:
  void SetUp() override {
    setenv("LOCKSTEP_RUNTIME_DIR", (folder_ + "/run").c_str(), 1);
    setenv("LOCKSTEP_KEYS", (folder_ + "/keys").c_str(), 1);
    setenv("HOME", folder_.c_str(), 1);
    unsetenv("LOCKSTEP_COLLECTOR");
    unsetenv("LOCKSTEP_KEY");
    unsetenv("LOCKSTEP_SERVER_KEY");
  }
};

TEST_F(ToolClientTest, SaysWhereItLooked) {
  const absl::StatusOr<CollectorAddress> address = FindCollector({});
  EXPECT_TRUE(absl::IsNotFound(address.status()));
  EXPECT_THAT(address.status().message(), HasSubstr(folder_ + "/run/collector"));
}

TEST_F(ToolClientTest, FollowsTheRuntimeFolder) {
  const absl::StatusOr<std::string> folder = MakeRuntimeFolder();
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_TRUE(WriteCollectorPlace(*folder, {"tcp://127.0.0.1:9470", ""}).ok());
  const absl::StatusOr<CollectorAddress> address = FindCollector({});
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->endpoint, "tcp://127.0.0.1:9470");
  EXPECT_EQ(address->found, *folder + "/collector");
  // The user's choice comes first.
  ToolOptions options;
  options.collector = "tcp://127.0.0.1:1";
  EXPECT_EQ(FindCollector(options)->endpoint, "tcp://127.0.0.1:1");
}

TEST_F(ToolClientTest, OffLoopbackKeysAreNeededAndFound) {
  ToolOptions options;
  options.collector = "tcp://10.1.2.3:9470";
  EXPECT_FALSE(FindCollector(options).ok());
  const absl::StatusOr<wire::KeyPair> own = wire::MakeKeyPair(wire::Role::kReader);
  const absl::StatusOr<wire::KeyPair> server = wire::MakeKeyPair(wire::Role::kCollector);
  ASSERT_TRUE(own.ok() && server.ok());
  ASSERT_TRUE(wire::WriteKeyPair(folder_ + "/keys", "reader", *own).ok());
  ASSERT_TRUE(wire::WriteKeyPair(folder_ + "/keys", "collector", *server).ok());
  const absl::StatusOr<CollectorAddress> address = FindCollector(options);
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->security.own_key, folder_ + "/keys/reader.key");
  EXPECT_EQ(address->security.server_key, folder_ + "/keys/collector.pub");
}

}  // namespace
}  // namespace lockstep
