#include "collector/common/say.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

TEST(Say, PrintedTextCannotControlATerminal) {
  ::testing::internal::CaptureStderr();
  Say("job \x1b]0;owned\x07 is late\nand more");
  SayBlock("HUNG  8 ranks\n  job      \x1b[2Jevil\xe2\x80\xae\n");
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find('\x1b'), std::string::npos) << said;
  EXPECT_EQ(said.find('\x07'), std::string::npos) << said;
  EXPECT_EQ(said.find("\xe2\x80\xae"), std::string::npos) << said;
  EXPECT_EQ(said.rfind("lockstep: job ", 0), 0u) << said;
  EXPECT_NE(said.find("\nHUNG  8 ranks\n"), std::string::npos) << said;
}

}  // namespace
}  // namespace lockstep
