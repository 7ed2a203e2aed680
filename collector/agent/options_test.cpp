#include "collector/agent/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "collector/agent/log.h"
#include "tests/support/environment.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

absl::StatusOr<AgentOptions> Parse(std::vector<std::string> words) {
  const absl::StatusOr<settings::ParsedOptions> parsed = settings::Parse("agent", std::move(words));
  return parsed.ok() ? MakeAgentOptions(*parsed) : parsed.status();
}

class AgentOptionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"LOCKSTEP_COLLECTOR", "LOCKSTEP_KEY", "LOCKSTEP_SERVER_KEY", "LOCKSTEP_SPOOL", "LOCKSTEP_SPOOL_BYTES",
          "LOCKSTEP_AGENT_RINGS", "LOCKSTEP_AGENT_LOG", "LOCKSTEP_METRICS", "LOCKSTEP_HOST"}) {
      unsetenv(name);
    }
  }
};

TEST_F(AgentOptionsTest, OptionsOverrideTheEnvironmentWhichOverridesDefaults) {
  setenv("LOCKSTEP_COLLECTOR", "tcp://127.0.0.1:1,tcp://127.0.0.1:2", 1);
  setenv("LOCKSTEP_SPOOL", "/from/environment", 1);
  setenv("LOCKSTEP_AGENT_RINGS", "/a:/b", 1);
  absl::StatusOr<AgentOptions> options = Parse({});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->collectors, ElementsAre("tcp://127.0.0.1:1", "tcp://127.0.0.1:2"));
  EXPECT_THAT(options->given.List("rings"), ElementsAre("/a", "/b"));
  EXPECT_EQ(options->spool, "/from/environment");
  EXPECT_EQ(options->log, "/from/environment/agent.log");
  EXPECT_EQ(options->given.Bytes("spool-bytes"), uint64_t{4} << 30);
  EXPECT_FALSE(options->host.empty());
  EXPECT_EQ(options->given.Text("metrics"), "");
  options = Parse({"--alone", "--spool", "/a/b/spool"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->given.Flag("alone"));
  EXPECT_TRUE(options->collectors.empty());
  EXPECT_EQ(options->out, "/a/b/incidents");
  EXPECT_FALSE(Parse({"--alone", "--collector", "tcp://127.0.0.1:1"}).ok());
  EXPECT_FALSE(Parse({"--on-verdict", "page me"}).ok()) << "only a collector makes verdicts";
  EXPECT_EQ(Parse({"--alone", "--on-verdict", "page me"})->given.Text("on-verdict"), "page me");
  EXPECT_FALSE(Parse({"--out", "/x"}).ok());
  options = Parse({"--alone", "--keep-rings", "36h", "--keep-ring-bytes=0"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->given.Age("keep-rings"), 36 * 3600);
  EXPECT_EQ(options->given.Bytes("keep-ring-bytes"), 0u);
  EXPECT_FALSE(Parse({"--alone", "--keep-ring-bytes", "1k"}).ok());
  options = Parse({"--collector", "ipc:///x", "--spool=/given", "--rings", "/c", "--rings=/d", "--spool-bytes", "500M",
                   "--log=/l", "--late-after", "2.5"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->collectors, ElementsAre("ipc:///x"));
  EXPECT_THAT(options->given.List("rings"), ElementsAre("/c", "/d"));
  EXPECT_EQ(options->spool, "/given");
  EXPECT_EQ(options->log, "/l");
  EXPECT_EQ(options->given.Bytes("spool-bytes"), uint64_t{500} << 20);
  EXPECT_EQ(options->given.Age("keep-rings"), 7 * 86400);
  EXPECT_EQ(options->given.Bytes("keep-ring-bytes"), uint64_t{5} << 30);
  EXPECT_EQ(options->given.Nanoseconds("late-after"), 2'500'000'000);
}

TEST_F(AgentOptionsTest, KeysAreSearchedForARemoteCollectorOrWhenNamed) {
  const support::TempFolder temp;
  const std::string& folder = temp.path();
  std::ofstream(folder + "/agent.key") << "x";
  std::ofstream(folder + "/collector.pub") << "x";
  auto keys = std::make_optional<support::EnvironmentVariable>("LOCKSTEP_KEYS", folder);
  EXPECT_EQ(Parse({"--collector", "tcp://192.0.2.1:1"})->security.own_key, folder + "/agent.key");
  EXPECT_EQ(Parse({"--collector", "tcp://192.0.2.1:1"})->security.server_key, folder + "/collector.pub");
  EXPECT_EQ(Parse({"--collector", "tcp://192.0.2.1:1", "--insecure"})->security.own_key, "");
  EXPECT_EQ(Parse({"--collector", "tcp://192.0.2.1:1", "--key", "/k"})->security.own_key, "/k");
  // On a local socket, keys are used only if configured, because its collector may run without keys.
  EXPECT_EQ(Parse({"--collector", "ipc:///run/x"})->security.own_key, folder + "/agent.key");
  keys.reset();
  EXPECT_EQ(Parse({"--collector", "ipc:///run/x"})->security.own_key, "");
}

TEST(AgentLogTest, IsBoundedAndRepeatsNothing) {
  const support::TempFolder temp;
  const std::string& folder = temp.path();
  const std::string path = folder + "/agent.log";
  {
    AgentLog log;
    ASSERT_TRUE(log.Open(path, 10'000).ok());
    for (int i = 0; i < 1000; ++i) log.Write("the same\nagain");
    EXPECT_LT(std::filesystem::file_size(path), 100u);
    for (int i = 0; i < 1000; ++i) log.Write("line " + std::to_string(i));
    EXPECT_FALSE(log.Open("/nowhere/at/all").ok());
  }
  EXPECT_LT(std::filesystem::file_size(path), 11'000u);
  EXPECT_LT(std::filesystem::file_size(path + ".1"), 11'000u);
}

}  // namespace
}  // namespace lockstep
