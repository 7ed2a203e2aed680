#include "collector/service/options.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

absl::StatusOr<CollectorOptions> Parse(std::vector<std::string> words) {
  const absl::StatusOr<settings::ParsedOptions> parsed = settings::Parse("collector", std::move(words));
  return parsed.ok() ? MakeCollectorOptions(*parsed) : parsed.status();
}

std::string Problem(const std::vector<std::string>& words) {
  const absl::StatusOr<CollectorOptions> options = Parse(words);
  return options.ok() ? "" : std::string(options.status().message());
}

TEST(CollectorOptionsTest, EveryOptionIsRead) {
  const absl::StatusOr<CollectorOptions> options =
      Parse({"--listen", "tcp://0.0.0.0:9470", "--listen=ipc:///run/x", "--keys", "/k", "--out=/o", "--metrics",
             "127.0.0.1:9471", "--on-verdict", "drain", "--on-verdict-timeout", "5", "--late-after=7", "--hang-after",
             "1800", "--quota", "500G", "--host-quota", "1M"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->given.List("listen"), (std::vector<std::string>{"tcp://0.0.0.0:9470", "ipc:///run/x"}));
  EXPECT_EQ(options->security.own_key, "/k/collector.key");
  EXPECT_EQ(options->security.known_keys, "/k");
  EXPECT_EQ(options->given.Text("out"), "/o");
  EXPECT_EQ(options->given.Text("on-verdict"), "drain");
  EXPECT_EQ(options->given.Nanoseconds("on-verdict-timeout"), 5'000'000'000);
  EXPECT_EQ(options->given.Nanoseconds("late-after"), 7'000'000'000);
  EXPECT_EQ(options->given.Nanoseconds("hang-after"), 1'800'000'000'000);
  EXPECT_EQ(options->given.Bytes("quota"), uint64_t{500} << 30);
  EXPECT_EQ(options->given.Bytes("host-quota"), uint64_t{1} << 20);
  EXPECT_FALSE(options->security.insecure);
}

TEST(CollectorOptionsTest, ARelayHasItsOwnKey) {
  const absl::StatusOr<CollectorOptions> options =
      Parse({"--upstream", "tcp://head:9470", "--keys", "/k", "--server-key", "/k/collector.pub"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->security.own_key, "/k/relay.key");
}

TEST(CollectorOptionsTest, IncidentsAreKeptByAgeAndSize) {
  EXPECT_EQ(Parse({})->given.Age("keep"), 7 * 86400);
  EXPECT_EQ(Parse({})->given.Bytes("keep-bytes"), uint64_t{5} << 30);
  const absl::StatusOr<CollectorOptions> options = Parse({"--keep", "36h", "--keep-bytes", "0"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->given.Age("keep"), 36 * 3600);
  EXPECT_EQ(options->given.Bytes("keep-bytes"), 0u);
  EXPECT_NE(Problem({"--keep", "soon"}).find("--keep takes an age"), std::string::npos);
}

TEST(CollectorOptionsTest, ConflictingOptionsAreNamed) {
  EXPECT_NE(Problem({"--upstream", "tcp://x:*"}).find("--upstream"), std::string::npos);
  EXPECT_NE(Problem({"--upstream", "tcp://x:1", "--on-verdict", "y"}).find("relay"), std::string::npos);
  EXPECT_NE(Problem({"--server-key", "k"}).find("--server-key works only with --upstream"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
