#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <list>

#include "analyzer/util/time_units.h"
#include "collector/detect/ends.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FirstEndsTest : public ::testing::Test {
 protected:
  // `at` is the true time. The host's own clock has a different origin.
  void Add(const std::string& host, int64_t at, Life life, int32_t how, int64_t uncertainty = kMs, int64_t error = 0) {
    processes_.emplace_back();
    Process& process = processes_.back();
    process.life = life;
    (life == Life::kExited ? process.exit_code : process.signal) = how;
    process.ended_mono_ns = at + (host == "a" ? 5000 * kSecond : 7 * kSecond);
    ends_.push_back({&process, host, at + error, uncertainty});
  }
  void Kill(const std::string& host, int64_t at, int signal, int64_t uncertainty = kMs, int64_t error = 0) {
    Add(host, at, Life::kKilled, signal, uncertainty, error);
  }
  std::vector<bool> Consequences() const {
    std::vector<bool> list;
    for (const Process& process : processes_) list.push_back(process.consequence);
    return list;
  }
  std::list<Process> processes_;
  std::vector<HostEnd> ends_;
};

TEST_F(FirstEndsTest, TheFirstOfManyWithinASecondIsTheCause) {
  Kill("b", 10 * kSecond + 300 * kMs, SIGABRT);
  Kill("a", 10 * kSecond, SIGSEGV);
  Kill("b", 10 * kSecond + 200 * kMs, SIGTERM);
  Kill("c", 10 * kSecond + 900 * kMs, SIGKILL);
  Add("c", 10 * kSecond + 950 * kMs, Life::kExited, 1);
  const std::vector<size_t> causes = FindFirstEnds({.launcher = true, .ending_since_ns = 0}, ends_);
  EXPECT_THAT(causes, ElementsAre(1u));
  EXPECT_THAT(Consequences(), ElementsAre(true, false, true, true, true));
}

TEST_F(FirstEndsTest, TheOrderOnOneHostIsExactDespiteABadClock) {
  Kill("a", 10 * kSecond + 1, SIGSEGV, 60 * kSecond);
  Kill("a", 10 * kSecond, SIGABRT, 60 * kSecond);
  const std::vector<size_t> causes = FindFirstEnds({.launcher = true, .ending_since_ns = 0}, ends_);
  EXPECT_THAT(causes, ElementsAre(1u));
}

TEST_F(FirstEndsTest, ASetIsNamedIfTheClocksDoNotShowTheOrder) {
  Kill("a", 10 * kSecond, SIGSEGV, 20 * kMs);
  Kill("b", 10 * kSecond + 30 * kMs, SIGSEGV, 20 * kMs);
  Kill("c", 10 * kSecond + 60 * kMs, SIGSEGV, 20 * kMs);
  const std::vector<size_t> causes = FindFirstEnds({.launcher = true, .ending_since_ns = 0}, ends_);
  EXPECT_THAT(causes, ElementsAre(0u, 1u)) << "the third is certainly later than the first";
  EXPECT_THAT(Consequences(), ElementsAre(false, false, true));
}

TEST_F(FirstEndsTest, TheCauseIsInTheSetWhateverTheClockErrors) {
  for (int64_t error = -20; error <= 20; error += 5) {
    processes_.clear();
    ends_.clear();
    Kill("a", 10 * kSecond, SIGSEGV, 20 * kMs, error * kMs);
    Kill("b", 10 * kSecond + 1 * kMs, SIGABRT, 20 * kMs, -error * kMs);
    const std::vector<size_t> causes = FindFirstEnds({.launcher = true, .ending_since_ns = 0}, ends_);
    EXPECT_THAT(causes, ::testing::Contains(0u)) << error;
  }
}

TEST_F(FirstEndsTest, AHostWithAnUnknownClockIsAlwaysPossible) {
  Kill("a", 10 * kSecond, SIGSEGV);
  Kill("b", 50 * kSecond, SIGSEGV, -1);
  EXPECT_THAT(FindFirstEnds({.launcher = true, .ending_since_ns = 0}, ends_), ElementsAre(0u, 1u));
}

TEST_F(FirstEndsTest, AProcessThatTheLauncherTerminatedIsNoCandidateBesideACrash) {
  Kill("a", 10 * kSecond, SIGSEGV, 50 * kMs);
  Kill("b", 10 * kSecond + 10 * kMs, SIGTERM, 50 * kMs);
  EXPECT_THAT(FindFirstEnds({.launcher = true, .ending_since_ns = 0}, ends_), ElementsAre(0u));
}

TEST_F(FirstEndsTest, ALaterCrashIsASeparateCause) {
  Kill("a", 10 * kSecond, SIGSEGV);
  Kill("b", 14 * kSecond, SIGBUS);
  Kill("b", 15 * kSecond, SIGKILL);
  const std::vector<size_t> causes = FindFirstEnds({.launcher = true, .ending_since_ns = 0}, ends_);
  EXPECT_THAT(causes, ElementsAre(0u));
  EXPECT_THAT(Consequences(), ElementsAre(false, false, true));
}

TEST_F(FirstEndsTest, NormalEndsAndEndsByLockstepAreNoCauses) {
  Add("a", 5 * kSecond, Life::kExited, 0);
  Kill("a", 10 * kSecond, SIGKILL);
  const std::vector<size_t> causes = FindFirstEnds({.launcher = true, .ending_since_ns = 9 * kSecond}, ends_);
  EXPECT_THAT(causes, IsEmpty());
  EXPECT_THAT(Consequences(), ElementsAre(false, true));
  EXPECT_THAT(FindFirstEnds({}, {}), IsEmpty());
}

}  // namespace
}  // namespace lockstep
