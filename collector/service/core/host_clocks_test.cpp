#include "collector/service/core/host_clocks.h"
#include "analyzer/util/time_units.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

namespace lockstep {
namespace {

TEST(HostClocksTest, MessagesInOneDirectionBoundOneSideOnly) {
  HostClocks clocks;
  clocks.Received("a", 100 * kSecond, 5 * kSecond);
  EXPECT_FALSE(clocks.At("a", 100 * kSecond).has_value());
  EXPECT_FALSE(clocks.At("b", 100 * kSecond).has_value());
}

TEST(HostClocksTest, TheBoundsContainTheTrueTime) {
  std::mt19937_64 random(7);
  HostClocks clocks;
  // The other host's clock is three hours ahead and runs 50 parts per million faster.
  const auto theirs = [](int64_t ours) { return ours + 3 * 3600 * kSecond + ours / 20'000; };
  for (int64_t now = 0; now < 600 * kSecond; now += kSecond) {
    const auto delay = [&] { return static_cast<int64_t>(random() % static_cast<uint64_t>(20 * kMs)) + kMs / 5; };
    clocks.Received("a", theirs(now), now + delay());
    if (now % (10 * kSecond) == 0) clocks.Answered("a", now, theirs(now + delay()));
    const auto at = clocks.At("a", theirs(now));
    ASSERT_TRUE(at.has_value());
    EXPECT_LE(std::abs(at->ns - now), at->uncertainty_ns) << now;
    if (now > 60 * kSecond) {
      EXPECT_LT(at->uncertainty_ns, 10 * kMs);
    }
  }
  // Long after the last message, the bounds are wider.
  EXPECT_GT(clocks.At("a", theirs(36'000 * kSecond))->uncertainty_ns, 3 * kSecond);
}

}  // namespace
}  // namespace lockstep
