#include "analyzer/evidence/merged_stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/util/atomic_file.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MergedStacksTest : public support::FolderTest {
 protected:
  bool Read(const std::string& text) {
    EXPECT_TRUE(WriteFileSafely(folder_ + "/stacks.json", text).ok());
    return ReadStacks(folder_ + "/stacks.json", &stacks_, &error_);
  }
  MergedStacks stacks_;
  std::string error_;
};

TEST_F(MergedStacksTest, FramesAndRanksAreRead) {
  ASSERT_TRUE(
      Read(R"({"format":1,"nodes":[{},{"parent":0,"frame":"main"},{"parent":1,"frame":"f","ranks":[[0,2]]}]})"));
  ASSERT_EQ(stacks_.stacks.size(), 1u);
  EXPECT_THAT(stacks_.stacks[0].frames, ElementsAre("f", "main"));
  EXPECT_THAT(stacks_.stacks[0].ranks, ElementsAre(0, 1, 2));
}

TEST_F(MergedStacksTest, InvalidFilesAreRefused) {
  const std::string open(1'000'000, '['), close(1'000'000, ']');
  for (const std::string& text : {std::string(), std::string("[]"), std::string(R"({"nodes":[]})"), open, open + close,
                                  absl::StrCat(R"({"nodes":[],"format":)", open, close, "}"),
                                  absl::StrCat(R"({"nodes":)", open, close, R"(,"format":2})")}) {
    EXPECT_FALSE(Read(text)) << text.substr(0, 40);
    EXPECT_THAT(error_, HasSubstr("contains no stacks"));
  }
  EXPECT_TRUE(Read(absl::StrCat(R"({"format":1,"nodes":)", open, close, "}")));
}

TEST_F(MergedStacksTest, ALinkIsNotFollowed) {
  ASSERT_TRUE(WriteFileSafely(folder_ + "/other", R"({"format":1,"nodes":[]})").ok());
  std::filesystem::create_symlink(folder_ + "/other", folder_ + "/stacks.json");
  EXPECT_FALSE(ReadStacks(folder_ + "/stacks.json", &stacks_, &error_));
  EXPECT_EQ(StacksOf(folder_).refused.size(), 1u);
}

}  // namespace
}  // namespace lockstep
