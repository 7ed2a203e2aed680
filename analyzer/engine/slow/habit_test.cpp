// Tests records of a few steps with only a framework's durations: ranks that are late by habit, by chance, or by
// design.
#include <gtest/gtest.h>

#include "analyzer/engine/engine.h"
#include "analyzer/testing/findings.h"
#include "analyzer/testing/timed_job.h"

namespace lockstep {
namespace {

using lockstep::testing::Culprits;
using lockstep::testing::Show;

using testing::TimedJob;

// Two steps and almost two thirds of a third one, whose durations have not been read yet. Sends and receives have no
// durations.
TimedJob TwoSteps(uint64_t seed) {
  TimedJob job;
  job.tp = 8, job.pp = 2, job.dp = 4, job.steps = 3, job.micro_batches = 4, job.seed = seed;
  return job;
}

Bundle AsFramework(Bundle bundle) {
  for (Rank& rank : bundle.ranks) {
    rank.host.clear();
    rank.time_source = TimeSource::kFrameworkDurations;
    rank.ops.resize(rank.ops.size() * 8 / 9);
    const size_t told = rank.ops.size() * static_cast<size_t>(5 + rank.rank % 3) / 8;
    for (size_t i = 0; i < rank.ops.size(); ++i) {
      if (i >= told || ring::IsPointToPoint(rank.ops[i].kind)) rank.ops[i].started_ns = 0;
    }
  }
  return bundle;
}

TEST(Habit, OneSlowRankIsNamedInFewSteps) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    TimedJob job = TwoSteps(seed);
    job.compute_factor = [](int rank, int) { return rank == 21 ? 1.4 : 1.0; };
    const Verdict v = Analyze(AsFramework(job.Run()));
    ASSERT_EQ(v.findings_size(), 1) << "seed " << seed << "\n" << Show(v);
    EXPECT_EQ(v.findings(0).kind(), STRAGGLER);
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{21}) << Show(v);
    EXPECT_LT(v.findings(0).confidence(), 0.9);
    EXPECT_GT(v.findings(0).cost_ns_per_step(), 0);
  }
}

// All ranks of a host are slow, each by a different factor. Lateness is relative to the least slow rank, which is
// named, too.
TEST(Habit, AHostIsNamedIfMostOfItsGroupAreLate) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    TimedJob job = TwoSteps(seed);
    job.compute_factor = [](int rank, int) { return rank / 8 == 5 ? 1.4 + 0.1 * ((rank * 5) % 8) : 1.0; };
    const Verdict v = Analyze(AsFramework(job.Run()));
    ASSERT_EQ(v.findings_size(), 1) << "seed " << seed << "\n" << Show(v);
    EXPECT_EQ(Culprits(v.findings(0)), (std::vector<int32_t>{40, 41, 42, 43, 44, 45, 46, 47})) << Show(v);
  }
}

TEST(Habit, NoRankIsNamedForChanceOrDesign) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    TimedJob job = TwoSteps(seed);
    Verdict v = Analyze(AsFramework(job.Run()));
    EXPECT_EQ(v.findings_size(), 0) << "seed " << seed << "\n" << Show(v);
    // One computation in sixteen takes far longer.
    job.delay_ns = [&](int rank, int step, int nth) {
      uint64_t h = (seed * 1000003 + static_cast<uint64_t>(rank * 4096 + step * 64 + nth)) * 0x9e3779b97f4a7c15u;
      h ^= h >> 29;
      return (h * 0xbf58476d1ce4e5b9u >> 40 & 15) == 0 ? 30'000'000 : 0;
    };
    v = Analyze(AsFramework(job.Run()));
    EXPECT_EQ(v.findings_size(), 0) << "chance, seed " << seed << "\n" << Show(v);
    // The first rank of each group has more work.
    job.delay_ns = nullptr;
    job.compute_factor = [](int rank, int) { return rank % 8 == 0 ? 1.5 : 1.0; };
    v = Analyze(AsFramework(job.Run()));
    EXPECT_EQ(v.findings_size(), 0) << "design, seed " << seed << "\n" << Show(v);
  }
}

// Time on another communicator between two meetings is not the rank's own work. So a wait in a pipeline does not make a
// rank late.
TEST(Habit, WaitingElsewhereIsNotOwnWork) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    TimedJob job = TwoSteps(seed);
    job.transfer_factor = [](const std::vector<int>& members, int) {
      return members == std::vector<int>{3, 35} ? 30.0 : 1.0;
    };
    const Verdict v = Analyze(AsFramework(job.Run()));
    for (const Finding& f : v.findings()) EXPECT_NE(f.kind(), STRAGGLER) << "seed " << seed << "\n" << Show(v);
  }
}

}  // namespace
}  // namespace lockstep
