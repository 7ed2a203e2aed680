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

TEST_F(ToolClientTest, ReportsWhereItLooked) {
  const absl::StatusOr<CollectorAddress> address = FindCollector({});
  EXPECT_TRUE(absl::IsNotFound(address.status()));
  EXPECT_THAT(address.status().message(), HasSubstr(folder_ + "/run/collector"));
}

TEST_F(ToolClientTest, FollowsTheRuntimeFolder) {
  const absl::StatusOr<std::string> folder = MakeRuntimeFolder();
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_TRUE(WriteCollectorPlace(*folder, {"ipc:///run/x", ""}).ok());
  const absl::StatusOr<CollectorAddress> address = FindCollector({});
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->endpoint, "ipc:///run/x");
  EXPECT_EQ(address->found, *folder + "/collector");
  // The user's choice comes first.
  ToolOptions options;
  options.collector = "ipc:///run/y";
  EXPECT_EQ(FindCollector(options)->endpoint, "ipc:///run/y");
}

TEST_F(ToolClientTest, OnPortsKeysAreRequiredAndFound) {
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
  // The collector would drop an agent's requests, so an agent's key is an error at once.
  const absl::StatusOr<wire::KeyPair> agent = wire::MakeKeyPair(wire::Role::kAgent);
  ASSERT_TRUE(wire::WriteKeyPair(folder_ + "/keys", "agent", *agent).ok());
  options.key = folder_ + "/keys/agent.key";
  EXPECT_THAT(FindCollector(options).status().message(), HasSubstr("agent.key is of role agent: a tool needs"));
}

}  // namespace
}  // namespace lockstep
