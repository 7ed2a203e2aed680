#include "collector/run/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<RunOptions> Parse(std::vector<const char*> words) {
  words.insert(words.begin(), "lockstep-run");
  return ParseRunOptions(static_cast<int>(words.size()), const_cast<char**>(words.data()));
}

TEST(RunOptionsTest, ReadsEveryOption) {
  const auto options = Parse({"-n", "8", "--out", "here", "--kill-on-hang", "--gpu=done", "--hang-after", "12.5",
                              "--late-after=2", "--quiet", "--", "train", "-n", "--out"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->ranks, 8);
  EXPECT_EQ(options->out, "here");
  EXPECT_TRUE(options->kill_on_hang);
  EXPECT_TRUE(options->quiet);
  EXPECT_EQ(options->gpu, "done");
  EXPECT_EQ(options->hang_after_ns, 12'500'000'000);
  EXPECT_EQ(options->late_after_ns, 2'000'000'000);
  EXPECT_THAT(options->command, ElementsAre("train", "-n", "--out"));
}

TEST(RunOptionsTest, TheCommandMayStandWithoutDashes) {
  const auto options = Parse({"-n4", "torchrun", "--nproc", "2"});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->ranks, 4);
  EXPECT_THAT(options->command, ElementsAre("torchrun", "--nproc", "2"));
}

TEST(RunOptionsTest, NamesWhatIsWrong) {
  EXPECT_THAT(std::string(Parse({"-n", "0", "--", "x"}).status().message()), HasSubstr("-n takes"));
  EXPECT_THAT(std::string(Parse({"-n", "eight", "--", "x"}).status().message()), HasSubstr("'eight'"));
  EXPECT_THAT(std::string(Parse({"--frobnicate", "--", "x"}).status().message()), HasSubstr("--frobnicate"));
  EXPECT_THAT(std::string(Parse({"--gpu", "maybe", "--", "x"}).status().message()), HasSubstr("'maybe'"));
  EXPECT_TRUE(Parse({"--profiler", "--", "x"})->profiler);
  EXPECT_THAT(std::string(Parse({"--profiler", "--gpu", "done", "--", "x"}).status().message()), HasSubstr("exclude"));
  EXPECT_THAT(std::string(Parse({"--late-after", "nan", "--", "x"}).status().message()), HasSubstr("--late-after"));
  EXPECT_THAT(std::string(Parse({"--hang-after", "-1", "--", "x"}).status().message()), HasSubstr("--hang-after"));
  EXPECT_EQ(Parse({"--collector", "tcp://head:9470", "--", "x"})->collector, "tcp://head:9470");
  EXPECT_THAT(std::string(Parse({"--collector", "head:9470", "--", "x"}).status().message()), HasSubstr("tcp://"));
  EXPECT_THAT(std::string(Parse({"--collector", "tcp://head:9470", "--out", "y", "--", "x"}).status().message()),
              HasSubstr("exclude"));
  EXPECT_THAT(std::string(Parse({"-n"}).status().message()), HasSubstr("takes a value"));
  EXPECT_THAT(std::string(Parse({"--"}).status().message()), HasSubstr("no command"));
  EXPECT_THAT(std::string(Parse({}).status().message()), HasSubstr("no command"));
}

}  // namespace
}  // namespace lockstep
