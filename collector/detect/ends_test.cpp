#include "collector/detect/ends.h"
#include "analyzer/util/time_units.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace lockstep {
namespace {

Process Killed(int signal, int64_t at) {
  Process process;
  process.life = Life::kKilled;
  process.signal = signal;
  process.ended_mono_ns = at;
  return process;
}

Process Exited(int code, int64_t at) {
  Process process;
  process.life = Life::kExited;
  process.exit_code = code;
  process.ended_mono_ns = at;
  return process;
}

TEST(EndsTest, AProcessThatALauncherKillsIsAConsequence) {
  Process cause = Exited(1, 10 * kSecond), term = Killed(SIGTERM, 11 * kSecond), kill = Killed(SIGKILL, 40 * kSecond);
  Process crash = Killed(SIGSEGV, 10 * kSecond + 1), late_crash = Killed(SIGSEGV, 12 * kSecond), running;
  running.life = Life::kRunning;
  MarkConsequences({.launcher = true, .ending_since_ns = 0}, {&kill, &term, &cause, &crash, &late_crash, &running});
  EXPECT_FALSE(cause.consequence);
  EXPECT_TRUE(term.consequence);
  EXPECT_TRUE(kill.consequence);
  EXPECT_TRUE(crash.consequence) << "within a second, the first end is the cause";
  EXPECT_FALSE(late_crash.consequence);
  EXPECT_FALSE(running.consequence);
}

TEST(EndsTest, WithoutALauncherAnotherKillIsASeparateCause) {
  Process first = Killed(SIGKILL, 10 * kSecond), second = Killed(SIGKILL, 30 * kSecond);
  Process gave_up = Exited(1, 31 * kSecond), aborted = Killed(SIGABRT, 32 * kSecond), fine = Exited(0, 33 * kSecond);
  MarkConsequences({}, {&first, &second, &gave_up, &aborted, &fine});
  EXPECT_FALSE(first.consequence);
  EXPECT_FALSE(second.consequence);
  EXPECT_TRUE(gave_up.consequence);
  EXPECT_TRUE(aborted.consequence);
  EXPECT_FALSE(fine.consequence);
}

TEST(EndsTest, AnEndWhileTheJobIsBeingEndedIsNoCause) {
  Process before = Killed(SIGKILL, 9 * kSecond), after = Killed(SIGKILL, 11 * kSecond);
  MarkConsequences({.launcher = false, .ending_since_ns = 10 * kSecond}, {&after, &before});
  EXPECT_FALSE(before.consequence);
  EXPECT_TRUE(after.consequence);
}

TEST(EndsTest, EndsHaveReadableTexts) {
  EXPECT_EQ(EndText(Exited(3, 0)), "exited 3");
  EXPECT_EQ(EndText(Killed(SIGKILL, 0)), "killed by signal 9 (Killed)");
}

}  // namespace
}  // namespace lockstep
