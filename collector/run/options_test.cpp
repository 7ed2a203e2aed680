#include "collector/run/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<RunOptions> Parse(std::vector<std::string> words) {
  const absl::StatusOr<settings::ParsedOptions> parsed = settings::Parse("run", std::move(words));
  if (!parsed.ok()) return parsed.status();
  return MakeRunOptions(*parsed);
}

TEST(RunOptionsTest, ReadsEveryOption) {
  const auto options =
      Parse({"-n", "8", "--out", "here", "--kill-on-hang", "--gpu=done", "--hang-after", "12.5", "--late-after=2",
             "--quiet", "--on-verdict", "page me", "--on-verdict-timeout=5", "--", "train", "-n", "--out"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->ranks, 8);
  EXPECT_EQ(options->out, "here");
  EXPECT_TRUE(options->kill_on_hang);
  EXPECT_TRUE(options->quiet);
  EXPECT_EQ(options->on_verdict, "page me");
  EXPECT_EQ(options->on_verdict_ns, 5'000'000'000);
  EXPECT_EQ(options->gpu, "done");
  EXPECT_EQ(options->hang_after_ns, 12'500'000'000);
  EXPECT_EQ(options->late_after_ns, 2'000'000'000);
  EXPECT_THAT(options->command, ElementsAre("train", "-n", "--out"));
}

TEST(RunOptionsTest, TheCommandMayFollowWithoutDashes) {
  const auto options = Parse({"-n4", "torchrun", "--nproc", "2"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->ranks, 4);
  EXPECT_THAT(options->command, ElementsAre("torchrun", "--nproc", "2"));
}

TEST(RunOptionsTest, ConflictingOptionsAreNamed) {
  EXPECT_THAT(std::string(Parse({"--profiler", "--gpu", "done", "--", "x"}).status().message()), HasSubstr("exclude"));
  EXPECT_THAT(std::string(Parse({"--collector", "tcp://head:9470", "--out", "y", "--", "x"}).status().message()),
              HasSubstr("exclude"));
  EXPECT_THAT(std::string(Parse({"--collector", "tcp://head:9470", "--on-verdict", "y", "--", "x"}).status().message()),
              HasSubstr("exclude"));
  EXPECT_THAT(std::string(Parse({"--"}).status().message()), HasSubstr("no COMMAND given"));
  EXPECT_THAT(std::string(Parse({}).status().message()), HasSubstr("no COMMAND given"));
}

}  // namespace
}  // namespace lockstep
