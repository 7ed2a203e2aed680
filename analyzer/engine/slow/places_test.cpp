// Tests rings that contain a different part of a step for each rank. Equal places are compared with each other, and no
// rank is blamed for chance delays.
#include "analyzer/engine/slow/places.h"

#include <gtest/gtest.h>

#include "analyzer/engine/engine.h"
#include "analyzer/testing/findings.h"
#include "analyzer/testing/timed_job.h"

namespace lockstep {
namespace {

using lockstep::testing::Culprits;
using lockstep::testing::Show;

using testing::TimedJob;

// Each rank's ring contains its last 10 to 14 calls. Additional work precedes every third call.
Bundle Overwritten(TimedJob job) {
  job.tp = 4, job.pp = 1, job.dp = 8, job.micro_batches = 4, job.steps = 4;
  const auto delay = job.delay_ns;
  job.delay_ns = [delay, factor = job.compute_factor](int rank, int step, int nth) {
    const double by = factor ? factor(rank, step) : 1;
    return (nth % 3 == 0 ? static_cast<int64_t>(15'000'000 * by) : 0) + (delay ? delay(rank, step, nth) : 0);
  };
  Bundle bundle = job.Run();
  for (Rank& rank : bundle.ranks) {
    const size_t keep = 10 + static_cast<size_t>(rank.rank * 7 % 5);
    rank.ops.erase(rank.ops.begin(), rank.ops.end() - static_cast<ptrdiff_t>(keep));
  }
  return bundle;
}

TEST(Places, WorkThatIsSlowIsFoundInPartsOfAStep) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    TimedJob job;
    job.seed = seed;
    job.compute_factor = [](int rank, int) { return rank == 13 ? 1.5 : 1.0; };
    Verdict v = Analyze(Overwritten(job));
    ASSERT_EQ(v.findings_size(), 1) << "seed " << seed << "\n" << Show(v);
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{13}) << Show(v);
    EXPECT_NEAR(v.findings(0).slowdown(), 1.5, 0.1);
    EXPECT_LT(v.findings(0).confidence(), 0.9);
    job.compute_factor = [](int rank, int) { return rank / 4 == 5 ? 1.5 + 0.1 * (rank % 4) : 1.0; };
    v = Analyze(Overwritten(job));
    ASSERT_EQ(v.findings_size(), 1) << "seed " << seed << "\n" << Show(v);
    EXPECT_EQ(v.findings(0).kind(), SLOW_HOST);
    EXPECT_EQ(Culprits(v.findings(0)), (std::vector<int32_t>{20, 21, 22, 23})) << Show(v);
  }
}

TEST(Places, OtherPartsOfAStepAndChanceNameNoRank) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    TimedJob job;
    job.seed = seed;
    Verdict v = Analyze(Overwritten(job));
    EXPECT_EQ(v.findings_size(), 0) << "seed " << seed << "\n" << Show(v);
    job.delay_ns = [&](int rank, int step, int nth) {
      uint64_t h = (seed * 1000003 + static_cast<uint64_t>(rank * 4096 + step * 64 + nth)) * 0x9e3779b97f4a7c15u;
      h ^= h >> 29;
      return (h * 0xbf58476d1ce4e5b9u >> 40 & 7) == 0 ? 20'000'000 : 0;
    };
    v = Analyze(Overwritten(job));
    EXPECT_EQ(v.findings_size(), 0) << "chance, seed " << seed << "\n" << Show(v);
  }
}

}  // namespace
}  // namespace lockstep
