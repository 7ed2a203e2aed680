#include "analyzer/engine/slow/slow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "analyzer/engine/engine.h"
#include "analyzer/testing/findings.h"
#include "analyzer/testing/timed_job.h"

namespace lockstep {
namespace {

using lockstep::testing::Culprits;
using lockstep::testing::Show;

using testing::TimedJob;

TEST(Slow, HealthyJobsOfManyShapesHaveNoFinding) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    for (const auto& [tp, pp, dp] :
         {std::tuple(2, 1, 4), std::tuple(2, 2, 2), std::tuple(1, 1, 8), std::tuple(8, 1, 1), std::tuple(4, 4, 4)}) {
      for (int64_t sampled : {0, 10'000'000}) {
        TimedJob job;
        job.tp = tp, job.pp = pp, job.dp = dp, job.seed = seed, job.jitter = 0.05;
        job.sampled_every_ns = sampled;
        job.source = sampled > 0 ? TimeSource::kSampledMarks : TimeSource::kEvents;
        const Verdict v = Analyze(job.Run());
        EXPECT_EQ(v.verdict(), VERDICT_HEALTHY) << tp << pp << dp << " seed " << seed << "\n" << Show(v);
      }
    }
  }
}

TEST(Slow, FewStepsThatVaryMuchMakeNoRankSlow) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    TimedJob job;
    job.tp = 2, job.dp = 32, job.steps = 9, job.seed = seed, job.jitter = 0.4;
    job.record_started = false, job.host_runs_ahead = false;
    const Verdict v = Analyze(job.Run());
    EXPECT_EQ(v.verdict(), VERDICT_HEALTHY) << "seed " << seed << "\n" << Show(v);
  }
}

TEST(Slow, TheRankWithLongerOwnWorkIsTheStraggler) {
  for (const auto& [tp, pp, dp] :
       {std::tuple(2, 1, 4), std::tuple(2, 2, 2), std::tuple(1, 1, 8), std::tuple(8, 1, 1), std::tuple(4, 4, 4)}) {
    TimedJob job;
    job.tp = tp, job.pp = pp, job.dp = dp;
    job.clock = [](int host, int64_t t) { return t + host * 3'000'000'000ll; };
    job.compute_factor = [](int rank, int) { return rank == 5 ? 1.3 : 1.0; };
    const Verdict v = Analyze(job.Run());
    ASSERT_EQ(v.verdict(), VERDICT_SLOW) << tp << pp << dp << Show(v);
    ASSERT_EQ(v.findings_size(), 1) << Show(v);
    EXPECT_EQ(v.findings(0).kind(), STRAGGLER);
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5}) << Show(v);
    EXPECT_EQ(v.findings(0).pattern(), "persistent");
    EXPECT_NEAR(v.findings(0).slowdown(), 1.3, 0.08);
    ASSERT_GT(v.arrivals_size(), 0);
    EXPECT_EQ(v.arrivals(0).rank(), 5);
  }
}

TEST(Slow, DurationsThatWereNotReadYetAreNotOwnWork) {
  for (bool slow : {false, true}) {
    TimedJob job;
    job.source = TimeSource::kFrameworkDurations;
    job.compute_factor = [&](int rank, int) { return slow && rank == 5 ? 1.4 : 1.0; };
    Bundle bundle = job.Run();
    // The watchdog of rank 3 was delayed, so its last three steps have no durations.
    for (size_t r : {3, 5}) {
      std::vector<Op>& ops = bundle.ranks[r].ops;
      const size_t keep = ops.size() * 5 / 8;
      for (size_t i = r == 3 ? keep : ops.size() - 2; i < ops.size(); ++i) ops[i].started_ns = 0;
    }
    const Verdict v = Analyze(bundle);
    if (!slow) {
      EXPECT_EQ(v.findings_size(), 0) << Show(v);
      continue;
    }
    ASSERT_EQ(v.findings_size(), 1) << Show(v);
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5}) << Show(v);
  }
}

TEST(Slow, TheCostIsTheAddedLengthOfAStep) {
  TimedJob job;
  job.Run();
  const double healthy = static_cast<double>(job.true_step_ends.back() - job.true_step_ends[0]) / 7;
  job.compute_factor = [](int rank, int) { return rank == 2 ? 1.5 : 1.0; };
  const Verdict v = Analyze(job.Run());
  const double slow = static_cast<double>(job.true_step_ends.back() - job.true_step_ends[0]) / 7;
  ASSERT_EQ(v.findings_size(), 1) << Show(v);
  EXPECT_NEAR(static_cast<double>(v.findings(0).cost_ns_per_step()), slow - healthy, (slow - healthy) / 8);
}

TEST(Slow, SampledMarkersShowDelaysAboveTheirError) {
  TimedJob job;
  job.dp = 8, job.steps = 20, job.compute_ns = 40'000'000;
  job.sampled_every_ns = 10'000'000, job.source = TimeSource::kSampledMarks;
  job.compute_factor = [](int rank, int) { return rank == 5 ? 1.5 : 1.0; };
  const Verdict v = Analyze(job.Run());
  ASSERT_EQ(v.findings_size(), 1) << Show(v);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5});
  EXPECT_GT(v.findings(0).cost_uncertainty_ns(), 1'000'000);
  // A difference smaller than the error of the markers blames no rank.
  job.compute_ns = 1'000'000;
  job.compute_factor = [](int rank, int) { return rank == 5 ? 1.1 : 1.0; };
  EXPECT_EQ(Analyze(job.Run()).verdict(), VERDICT_HEALTHY);
}

TEST(Slow, OneHostIsOneFinding) {
  TimedJob job;
  job.tp = 4, job.dp = 8;
  job.compute_factor = [](int rank, int) { return rank / 4 == 3 ? 1.25 : 1.0; };
  const Verdict v = Analyze(job.Run());
  ASSERT_EQ(v.findings_size(), 1) << Show(v);
  EXPECT_EQ(v.findings(0).kind(), SLOW_HOST);
  EXPECT_EQ(Culprits(v.findings(0)), (std::vector<int32_t>{12, 13, 14, 15}));
  EXPECT_EQ(v.findings(0).common_factor().kind(), "host");
  EXPECT_EQ(v.findings(0).common_factor().name(), "node3");
}

// Makes the bundle look like a framework's dumps: no hosts, and no durations of the last operations, which the watchdog
// has not read yet.
Bundle AsFramework(Bundle bundle, const std::function<int(int rank)>& unseen_steps, int steps) {
  for (Rank& rank : bundle.ranks) {
    rank.host.clear();
    rank.time_source = TimeSource::kFrameworkDurations;
    const size_t first_unseen =
        rank.ops.size() * static_cast<size_t>(steps - unseen_steps(rank.rank)) / static_cast<size_t>(steps);
    for (size_t i = first_unseen; i < rank.ops.size(); ++i) rank.ops[i].started_ns = 0;
  }
  return bundle;
}

TEST(Slow, StepsWithoutDurationsAreNoOwnWork) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    TimedJob job;
    job.tp = 2, job.pp = 2, job.dp = 2, job.steps = 5, job.seed = seed, job.host_runs_ahead = false;
    const auto unseen = [](int rank) { return rank == 3 ? 5 : rank % 4; };
    Verdict v = Analyze(AsFramework(job.Run(), unseen, job.steps));
    EXPECT_EQ(v.verdict(), VERDICT_HEALTHY) << "seed " << seed << "\n" << Show(v);
    job.compute_factor = [](int rank, int) { return rank == 6 ? 1.5 : 1.0; };
    v = Analyze(AsFramework(job.Run(), unseen, job.steps));
    ASSERT_EQ(v.findings_size(), 1) << "seed " << seed << "\n" << Show(v);
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{6}) << Show(v);
  }
}

// Operations that overlap take more time in total than the step, so the remainder is not own work.
TEST(Slow, DurationsThatExceedTheStepLeaveNoOwnWork) {
  TimedJob job;
  job.tp = 1, job.dp = 8, job.steps = 5, job.host_runs_ahead = false;
  Bundle bundle = AsFramework(
      job.Run(), [](int) { return 0; }, job.steps);
  for (Rank& rank : bundle.ranks) {
    for (Op& op : rank.ops) op.started_ns -= rank.rank == 5 ? 38'000'000 : 40'000'000;
  }
  const Verdict v = Analyze(bundle);
  EXPECT_EQ(v.findings_size(), 0) << Show(v);
}

TEST(Slow, ChanceDelaysInFewStepsMakeNoRankSlow) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    TimedJob job;
    job.tp = 2, job.pp = 1, job.dp = 4, job.steps = 5, job.seed = seed, job.host_runs_ahead = false;
    const auto unseen = [](int) { return 1; };
    // In some of the few steps, rank 5 is delayed, and so is rank 4, which waits for it.
    int each = 2;
    job.delay_ns = [&](int rank, int step, int nth) {
      if (rank == 5 && nth == 1 && step % each == 0) return 12'000'000;
      return rank == 4 && nth == 3 && step % 2 == 0 ? 6'000'000 : 0;
    };
    Verdict v = Analyze(AsFramework(job.Run(), unseen, job.steps));
    EXPECT_EQ(v.verdict(), VERDICT_HEALTHY) << "seed " << seed << "\n" << Show(v);
    // The delay occurs in each step.
    each = 1;
    v = Analyze(AsFramework(job.Run(), unseen, job.steps));
    ASSERT_EQ(v.findings_size(), 1) << "seed " << seed << "\n" << Show(v);
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5}) << Show(v);
    // The same total delay is spread evenly over the rank's work.
    job.delay_ns = nullptr;
    job.compute_factor = [](int rank, int) { return rank == 5 ? 1.6 : 1.0; };
    v = Analyze(AsFramework(job.Run(), unseen, job.steps));
    ASSERT_EQ(v.findings_size(), 1) << "seed " << seed << "\n" << Show(v);
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5}) << Show(v);
  }
}

// Members of a group wait for each other, so their common delay counts as one. It differs from step to step, so it may
// be chance.
TEST(Slow, AGroupThatChanceHitsInSomeOfFewStepsIsNotSlow) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    TimedJob job;
    job.tp = 4, job.pp = 1, job.dp = 2, job.steps = 8, job.seed = seed, job.host_runs_ahead = false;
    const auto unseen = [](int) { return 1; };
    job.delay_ns = [&](int rank, int step, int nth) -> int64_t {
      constexpr int64_t kHits[] = {3, 4, 1, 5, 3, 1};  // milliseconds
      return rank / 4 == 1 && nth == 1 ? kHits[(static_cast<uint64_t>(step) + seed) % 6] * 1'000'000 : 0;
    };
    Verdict v = Analyze(AsFramework(job.Run(), unseen, job.steps));
    EXPECT_EQ(v.verdict(), VERDICT_HEALTHY) << "seed " << seed << "\n" << Show(v);
    // The same total delay is spread evenly over the group's work.
    job.delay_ns = nullptr;
    job.compute_factor = [](int rank, int) { return rank / 4 == 1 ? 1.15 : 1.0; };
    v = Analyze(AsFramework(job.Run(), unseen, job.steps));
    ASSERT_EQ(v.findings_size(), 1) << "seed " << seed << "\n" << Show(v);
    EXPECT_EQ(Culprits(v.findings(0)), (std::vector<int32_t>{4, 5, 6, 7})) << Show(v);
  }
}

TEST(Slow, GroupsThatAreSlowAsAWholeAreOneFindingWithoutHosts) {
  TimedJob job;
  job.tp = 4, job.pp = 1, job.dp = 8, job.host_runs_ahead = false;
  // Eight ranks are slow, each by a different factor. The slowest one hides how late the others are.
  job.compute_factor = [](int rank, int) { return rank / 8 == 2 ? 1.4 + 0.1 * (rank % 8) : 1.0; };
  const Verdict v = Analyze(AsFramework(
      job.Run(), [](int rank) { return rank % 3; }, job.steps));
  ASSERT_EQ(v.findings_size(), 1) << Show(v);
  EXPECT_EQ(v.findings(0).kind(), STRAGGLER);
  EXPECT_EQ(Culprits(v.findings(0)), (std::vector<int32_t>{16, 17, 18, 19, 20, 21, 22, 23})) << Show(v);
}

// If one of two slow ranks in a group waits for the other, that wait may be all that makes it slow. The other one is
// named.
TEST(Slow, InAPairTheRankThatDoesNotWaitIsNamed) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    TimedJob job;
    job.tp = 2, job.pp = 2, job.dp = 2, job.steps = 4, job.seed = seed, job.gpus_per_host = 2,
    job.host_runs_ahead = false;
    const auto unseen = [](int rank) { return rank % 2; };
    for (const double less : {1.0, 1.3, 1.5}) {
      job.compute_factor = [&](int rank, int) { return rank == 2 ? 2.0 : rank == 3 ? less : 1.0; };
      const Verdict v = Analyze(AsFramework(job.Run(), unseen, job.steps));
      ASSERT_EQ(v.findings_size(), 1) << "seed " << seed << "\n" << Show(v);
      EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{2}) << Show(v);
    }
    // Both ranks wait in transfers without durations. That wait is not rank 3's own work.
    job.compute_factor = [](int rank, int) { return rank == 2 ? 2.0 : 1.0; };
    job.transfer_factor = [](const std::vector<int>& members, int) {
      return std::min(members[0], members[1]) / 2 == 1 && std::abs(members[0] - members[1]) == 4 ? 6.0 : 1.0;
    };
    Bundle bundle = AsFramework(job.Run(), unseen, job.steps);
    for (Rank& rank : bundle.ranks) {
      for (Op& op : rank.ops) {
        if (ring::IsPointToPoint(op.kind)) op.started_ns = 0;
      }
    }
    const Verdict v = Analyze(bundle);
    for (const Finding& f : v.findings()) {
      for (int32_t r : f.culprit_ranks()) EXPECT_NE(r, 3) << "seed " << seed << "\n" << Show(v);
    }
  }
}

// Dumps of a running job: each rank's record ends at a different operation in a different step. In each step another
// rank has a delay that all others wait for.
TEST(Slow, StepsArePairedByNumberWhereverARecordEnds) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    TimedJob job;
    job.tp = 2, job.pp = 1, job.dp = 4, job.steps = 12, job.seed = seed, job.host_runs_ahead = false;
    bool slow = false;
    job.delay_ns = [&](int rank, int step, int nth) -> int64_t {
      if (slow && rank == 5 && nth == 2) return 10'000'000;
      return nth == 1 && rank == static_cast<int>((static_cast<uint64_t>(step) * 5 + seed * 3) % 8) ? 30'000'000 : 0;
    };
    const auto cut = [&] {
      Bundle bundle = AsFramework(
          job.Run(), [](int) { return 0; }, job.steps);
      for (Rank& rank : bundle.ranks) {
        const size_t step = rank.ops.size() / static_cast<size_t>(job.steps);
        rank.ops.resize(rank.ops.size() - static_cast<size_t>(rank.rank) * 7 % (2 * step));
      }
      return bundle;
    };
    Verdict v = Analyze(cut());
    EXPECT_EQ(v.findings_size(), 0) << "seed " << seed << "\n" << Show(v);
    // One rank also has a smaller delay at one place in each step.
    slow = true;
    v = Analyze(cut());
    ASSERT_EQ(v.findings_size(), 1) << "seed " << seed << "\n" << Show(v);
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{5}) << "seed " << seed << "\n" << Show(v);
    EXPECT_NEAR(static_cast<double>(v.findings(0).cost_ns_per_step()), 10e6, 2e6);
  }
}

// Data-parallel jobs call one kind of operation on one communicator. Its sizes show where a step begins.
TEST(Slow, SizesShowTheStepsOfAJobWithOneKindOfOperation) {
  TimedJob job;
  job.tp = 1, job.pp = 1, job.dp = 8, job.steps = 60, job.host_runs_ahead = false;
  job.delay_ns = [](int rank, int step, int) { return rank == 3 && step % 6 == 2 ? 10'000'000 : 0; };
  Bundle bundle = AsFramework(
      job.Run(), [](int) { return 0; }, job.steps);
  for (Rank& rank : bundle.ranks) {
    ASSERT_EQ(rank.ops.size(), 60u);
    for (size_t i = 0; i < rank.ops.size(); ++i) rank.ops[i].count = i % 6 == 0 ? 1'000 : 50'000;
  }
  const Verdict v = Analyze(bundle);
  ASSERT_EQ(v.findings_size(), 1) << Show(v);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{3}) << Show(v);
  EXPECT_NEAR(static_cast<double>(v.findings(0).cost_ns_per_step()), 10e6, 2e6);
}

// Rank 1 has a delay in one of two steps. That delay is not usual, so it does not hide ranks that are slow in both
// steps.
TEST(Slow, TheShorterOfTwoStepsIsUsual) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    TimedJob job;
    job.tp = 2, job.pp = 1, job.dp = 2, job.steps = 4, job.seed = seed, job.host_runs_ahead = false;
    const auto unseen = [](int) { return 1; };
    const int hit = 1 + static_cast<int>(seed % 2);
    job.compute_factor = [](int rank, int) { return rank >= 2 ? 2.0 : 1.0; };
    job.delay_ns = [&](int rank, int step, int nth) { return rank == 1 && step == hit && nth == 0 ? 20'000'000 : 0; };
    const Verdict v = Analyze(AsFramework(job.Run(), unseen, job.steps));
    ASSERT_EQ(v.findings_size(), 1) << "seed " << seed << "\n" << Show(v);
    EXPECT_EQ(Culprits(v.findings(0)), (std::vector<int32_t>{2, 3})) << "seed " << seed << "\n" << Show(v);
  }
}

// If only the slow rank of a communicator has a record, all its measured members are slow, which proves nothing. Groups
// with several measured members take precedence.
TEST(Slow, AGroupWithOneMeasuredMemberDoesNotCountAsSlow) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    TimedJob job;
    job.tp = 2, job.pp = 2, job.dp = 2, job.steps = 6, job.seed = seed, job.host_runs_ahead = false;
    job.compute_factor = [](int rank, int) { return rank == 2 || rank == 3 ? 2.0 : 1.0; };
    Bundle bundle = AsFramework(
        job.Run(), [](int) { return 0; }, job.steps);
    bundle.ranks.erase(bundle.ranks.begin());
    // The order of communicators in the files makes no difference.
    std::reverse(bundle.comms.begin(), bundle.comms.end());
    for (Rank& rank : bundle.ranks) {
      for (Membership& m : rank.memberships) m.comm = static_cast<uint32_t>(bundle.comms.size()) - 1 - m.comm;
    }
    const Verdict v = Analyze(bundle);
    ASSERT_EQ(v.findings_size(), 1) << "seed " << seed << "\n" << Show(v);
    EXPECT_EQ(Culprits(v.findings(0)), (std::vector<int32_t>{2, 3})) << Show(v);
  }
}

// Slow transfers between many ranks that point to no link may be waits for another rank.
TEST(Slow, SlowTransfersWithoutALinkAreReportedAfterAStraggler) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    TimedJob job;
    job.tp = 4, job.pp = 4, job.dp = 2, job.steps = 6, job.seed = seed;
    job.transfer_factor = [](const std::vector<int>& members, int) {
      const auto [a, b] = std::minmax(members[0], members[1]);
      return members.size() == 2 && b - a == 8 && (a / 4 == 1 || a / 4 == 3) ? 26.0 : 1.0;
    };
    Verdict v = Analyze(job.Run());
    ASSERT_GE(v.findings_size(), 1) << Show(v);
    EXPECT_EQ(v.findings(0).kind(), SLOW_LINK) << Show(v);
    EXPECT_LE(v.findings(0).confidence(), 0.6) << Show(v);
    const int64_t cost = v.findings(0).cost_ns_per_step();
    job.compute_factor = [](int rank, int) { return rank == 31 ? 1.5 : 1.0; };
    v = Analyze(job.Run());
    ASSERT_EQ(v.findings_size(), 2) << Show(v);
    EXPECT_EQ(v.findings(0).kind(), STRAGGLER) << Show(v);
    EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{31}) << Show(v);
    EXPECT_LT(v.findings(0).cost_ns_per_step(), cost);
    EXPECT_EQ(v.findings(1).kind(), SLOW_LINK) << Show(v);
  }
}

TEST(Slow, NoiseHasNoCulprit) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    TimedJob job;
    job.dp = 8, job.steps = 12;
    job.delay_ns = [&](int rank, int step, int nth) {
      const uint64_t h = (static_cast<uint64_t>(step) * 31 + seed * 977) * 2654435761u;
      return rank == static_cast<int>(h >> 7) % 16 && nth == 2 ? 30'000'000 : 0;
    };
    const Verdict v = Analyze(job.Run());
    EXPECT_EQ(v.verdict(), VERDICT_HEALTHY) << seed << Show(v);
    EXPECT_TRUE(std::any_of(v.ruled_out().begin(), v.ruled_out().end(), [](const NotTheCause& not_it) {
      return not_it.what() == NotTheCause::PERSISTENT_STRAGGLER;
    }));
  }
}

TEST(Slow, RandomLatenessWithinAHostNamesTheHost) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    TimedJob job;
    job.tp = 4, job.dp = 8, job.steps = 24, job.seed = seed;
    const auto hit = [&](int step) {
      return 12 + static_cast<int>((static_cast<uint64_t>(step) * 7 + seed) * 2654435761u >> 9) % 4;
    };
    job.delay_ns = [&](int rank, int step, int nth) {
      return step % 2 == 0 && rank == hit(step) && nth == 2 ? 30'000'000 : 0;
    };
    const Verdict v = Analyze(job.Run());
    ASSERT_EQ(v.findings_size(), 1) << seed << Show(v);
    EXPECT_EQ(v.findings(0).kind(), SLOW_HOST) << Show(v);
    EXPECT_EQ(v.findings(0).pattern(), "random");
    EXPECT_EQ(Culprits(v.findings(0)), (std::vector<int32_t>{12, 13, 14, 15})) << Show(v);
    EXPECT_EQ(v.findings(0).common_factor().name(), "node3");
    EXPECT_EQ(v.findings(0).common_factor().members(), 4);
    EXPECT_GE(v.findings(0).common_factor().culprits(), 2);
    EXPECT_NEAR(static_cast<double>(v.findings(0).cost_ns_per_step()), 15e6, 3e6);
    EXPECT_FALSE(v.findings(0).tells_apart().empty());
  }
}

TEST(Slow, ALinkThatIsSlowNowAndThenIsRandom) {
  TimedJob job;
  job.tp = 2, job.dp = 8, job.gpus_per_host = 2, job.transfer_ns = 4'000'000, job.steps = 24;
  job.transfer_factor = [](const std::vector<int>& members, int step) {
    return members == std::vector<int>{6, 7} && step % 4 == 1 ? 5.0 : 1.0;
  };
  const Verdict v = Analyze(job.Run());
  ASSERT_EQ(v.findings_size(), 1) << Show(v);
  EXPECT_EQ(v.findings(0).kind(), SLOW_LINK);
  EXPECT_EQ(v.findings(0).pattern(), "random");
  EXPECT_EQ(Culprits(v.findings(0)), (std::vector<int32_t>{6, 7}));
  EXPECT_NEAR(v.findings(0).slowdown(), 5.0, 0.5);
}

TEST(Slow, ArrivalsShowWhetherARankIsUsuallyLast) {
  TimedJob job;
  job.tp = 4, job.dp = 4, job.steps = 16;
  const auto pattern_of = [](const Verdict& v, int rank) {
    for (const Arrival& a : v.arrivals()) {
      if (a.rank() == rank) return a.pattern();
    }
    return std::string("not there");
  };
  Verdict v = Analyze(job.Run());
  ASSERT_GT(v.arrivals_size(), 0);
  for (const Arrival& a : v.arrivals()) EXPECT_EQ(a.pattern(), "random") << a.DebugString();
  job.compute_factor = [](int rank, int) { return rank == 9 ? 1.5 : 1.0; };
  v = Analyze(job.Run());
  EXPECT_EQ(pattern_of(v, 9), "persistent");
  EXPECT_EQ(pattern_of(v, 2), "random");
}

// The record has two steps. A rank delayed twice by chance, so that it came last in 3 of 18 collectives, is not slow. A
// rank whose work is slow throughout is.
TEST(Slow, InFewStepsOnlyARankThatIsLastRepeatedlyIsNamed) {
  constexpr uint64_t kSeed = 11;
  TimedJob job;
  job.tp = 4, job.pp = 2, job.dp = 4, job.steps = 2, job.seed = kSeed;
  job.delay_ns = [](int rank, int step, int nth) {
    uint64_t h = (kSeed * 1000003 + static_cast<uint64_t>(rank * 4096 + step * 64 + nth)) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    return (h * 0xbf58476d1ce4e5b9u >> 40 & 31) != 0 ? 0 : 60'000'000;
  };
  Verdict v = Analyze(job.Run());
  EXPECT_EQ(v.findings_size(), 0) << Show(v);
  job.delay_ns = nullptr;
  job.compute_factor = [](int rank, int) { return rank == 6 ? 1.5 : 1.0; };
  v = Analyze(job.Run());
  ASSERT_EQ(v.findings_size(), 1) << Show(v);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{6}) << Show(v);
}

// With few steps, chance makes the ranks of a role differ by a few percent.
TEST(Slow, InFewStepsASmallSpreadMakesNoRankSlow) {
  TimedJob job;
  job.tp = 1, job.dp = 16, job.steps = 10, job.jitter = 0.001;
  job.compute_factor = [](int rank, int) { return rank < 6 ? 1.0 : 1 + 0.01 * (rank - 5); };
  const Verdict spread = Analyze(job.Run());
  EXPECT_EQ(spread.findings_size(), 0) << Show(spread);
  job.compute_factor = [](int rank, int) { return rank == 11 ? 1.09 : 1.0; };
  const Verdict clear = Analyze(job.Run());
  ASSERT_EQ(clear.findings_size(), 1) << Show(clear);
  EXPECT_EQ(Culprits(clear.findings(0)), std::vector<int32_t>{11});
}

// Two ranks lost half of their records and have no complete steps, so they are not compared with the others.
TEST(Slow, StepsAreNotComparedWithRecords) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    TimedJob job;
    job.tp = 2, job.dp = 8, job.steps = 4, job.jitter = 0.3, job.seed = seed;
    Bundle bundle = job.Run();
    for (int r : {2, 6}) {
      auto& ops = bundle.ranks[static_cast<size_t>(r)].ops;
      ops.erase(ops.begin(), ops.begin() + static_cast<ptrdiff_t>(ops.size() / 2 - 1));
    }
    const Verdict v = Analyze(bundle);
    EXPECT_EQ(v.findings_size(), 0) << "seed " << seed << "\n" << Show(v);
  }
}

TEST(Slow, OneDelayInEveryStepIsPersistent) {
  TimedJob job;
  job.dp = 8;
  job.delay_ns = [](int rank, int, int nth) { return rank == 6 && nth == 2 ? 20'000'000 : 0; };
  const Verdict v = Analyze(job.Run());
  ASSERT_EQ(v.findings_size(), 1) << Show(v);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{6});
}

TEST(Slow, TheBeginningOfTheSlownessIsReported) {
  TimedJob job;
  job.dp = 8, job.steps = 12;
  job.compute_factor = [](int rank, int step) { return rank == 6 && step >= 8 ? 1.6 : 1.0; };
  const Verdict v = Analyze(job.Run());
  ASSERT_EQ(v.findings_size(), 1) << Show(v);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{6});
  EXPECT_EQ(v.findings(0).pattern().rfind("since #", 0), 0u) << v.findings(0).pattern();
}

TEST(Slow, ASlowLinkIsNoSlowRank) {
  TimedJob job;
  job.tp = 2, job.dp = 8, job.gpus_per_host = 2, job.transfer_ns = 4'000'000;
  // The ranks of tp_3 share a link with a third of the usual speed.
  job.transfer_factor = [](const std::vector<int>& members, int) {
    return members == std::vector<int>{6, 7} ? 3.0 : 1.0;
  };
  const Verdict v = Analyze(job.Run());
  ASSERT_EQ(v.findings_size(), 1) << Show(v);
  EXPECT_EQ(v.findings(0).kind(), SLOW_LINK);
  EXPECT_EQ(Culprits(v.findings(0)), (std::vector<int32_t>{6, 7}));
  ASSERT_GT(v.bandwidths_size(), 0);
  EXPECT_EQ(v.bandwidths(0).communicator().name(), "tp_3");
  EXPECT_NEAR(v.bandwidths(0).peer_bus_bytes_per_s() / v.bandwidths(0).bus_bytes_per_s(), 3.0, 0.2);
  // 2^20 floats by ring all-reduce among two: 4 MiB in 12 ms.
  EXPECT_NEAR(v.bandwidths(0).bus_bytes_per_s(), 4194304.0 / 0.012, 1e7);
}

// A cluster that is slow as a whole has no slow link, but its speeds show it.
TEST(Slow, SpeedsCoverAllCommunicatorsOfASizeAndTheirHosts) {
  TimedJob job;
  job.tp = 2, job.dp = 8, job.gpus_per_host = 2, job.transfer_ns = 4'000'000;
  job.transfer_factor = [](const std::vector<int>&, int) { return 3.0; };
  const Verdict slow = Analyze(job.Run());
  EXPECT_EQ(slow.verdict(), VERDICT_HEALTHY) << Show(slow);
  const auto within = [](const Verdict& v) {
    for (const Speed& speed : v.speeds()) {
      if (speed.hosts() == 1) return speed;
    }
    return Speed();
  };
  Speed speed = within(slow);
  EXPECT_EQ(speed.operation(), "AllReduce");
  EXPECT_EQ(speed.ranks(), 2);
  EXPECT_EQ(speed.communicators(), 8);
  EXPECT_NEAR(speed.bus_bytes_per_s(), 4194304.0 / 0.012, 1e7);
  EXPECT_LE(speed.low_bus_bytes_per_s(), speed.bus_bytes_per_s());
  EXPECT_GE(speed.high_bus_bytes_per_s(), speed.bus_bytes_per_s());
  ASSERT_EQ(speed.by_host_size(), 8);
  EXPECT_EQ(speed.hosts_measured(), 8);
  // The host of the only slow communicator is the slowest.
  job.transfer_factor = [](const std::vector<int>& members, int) {
    return members == std::vector<int>{6, 7} ? 3.0 : 1.0;
  };
  speed = within(Analyze(job.Run()));
  EXPECT_EQ(speed.by_host(0).host(), "node3");
  EXPECT_NEAR(speed.by_host(1).bus_bytes_per_s() / speed.by_host(0).bus_bytes_per_s(), 3, 0.2);
}

// Fast transfers within a host say nothing about its ports. Without host names, any communicator may be within one
// host.
TEST(Slow, WithoutHostsOnlySimilarCommunicatorsAreCompared) {
  TimedJob job;
  job.tp = 2, job.pp = 2, job.dp = 2;
  job.transfer_factor = [](const std::vector<int>& members, int) {
    return members == std::vector<int>{1, 3} ? 6.0 : 1.0;
  };
  Bundle b = job.Run();
  for (Rank& rank : b.ranks) rank.host.clear();
  std::erase_if(b.ranks, [](const Rank& rank) { return rank.rank == 2; });
  b.ranks_expected = 8;
  const Verdict v = Analyze(b);
  ASSERT_EQ(v.findings_size(), 1) << Show(v);
  EXPECT_EQ(v.findings(0).kind(), SLOW_LINK) << Show(v);
  EXPECT_EQ(Culprits(v.findings(0)), (std::vector<int32_t>{1, 3})) << Show(v);
}

TEST(Slow, AHostIsNamedIfAllItsTransfersAreSlow) {
  TimedJob job;
  job.tp = 2, job.pp = 4, job.dp = 4, job.gpus_per_host = 4, job.transfer_ns = 4'000'000;
  // Every transfer from or to node 5 (ranks 20 to 23) takes four times as long.
  job.transfer_factor = [](const std::vector<int>& members, int) {
    bool in = false, out = false;
    for (int r : members) (r / 4 == 5 ? in : out) = true;
    return in && out ? 4.0 : 1.0;
  };
  const Verdict v = Analyze(job.Run());
  ASSERT_GE(v.findings_size(), 1) << Show(v);
  EXPECT_EQ(v.findings(0).kind(), SLOW_LINK);
  EXPECT_EQ(v.findings(0).common_factor().name(), "node5") << Show(v);
  EXPECT_EQ(v.findings_size(), 1) << Show(v);
}

TEST(Slow, TwoFaultsAtOnceAreTwoFindings) {
  TimedJob job;
  job.tp = 2, job.dp = 16, job.gpus_per_host = 2, job.transfer_ns = 4'000'000;
  job.compute_factor = [](int rank, int) { return rank == 9 ? 1.5 : 1.0; };
  job.transfer_factor = [](const std::vector<int>& members, int) {
    return members == std::vector<int>{24, 25} ? 3.0 : 1.0;
  };
  const Verdict v = Analyze(job.Run());
  ASSERT_EQ(v.findings_size(), 2) << Show(v);
  std::vector<std::vector<int32_t>> both{Culprits(v.findings(0)), Culprits(v.findings(1))};
  std::sort(both.begin(), both.end());
  EXPECT_EQ(both, (std::vector<std::vector<int32_t>>{{9}, {24, 25}})) << Show(v);
}

TEST(Slow, WithoutTimesTheVerdictStatesWhatWouldMeasure) {
  TimedJob job;
  job.record_started = job.record_completed = false;
  const Verdict v = Analyze(job.Run());
  EXPECT_EQ(v.findings_size(), 0);
  bool said = false;
  for (const std::string& text : v.not_measured()) said |= text.find("TORCH_NCCL_ENABLE_TIMING") != std::string::npos;
  EXPECT_TRUE(said);
}

TEST(Slow, EndTimesShowArrivalsOnlyIfTheCpuThreadDoesNotRunAhead) {
  TimedJob job;
  job.record_started = false;
  job.compute_factor = [](int rank, int) { return rank == 3 ? 1.4 : 1.0; };
  Verdict v = Analyze(job.Run());
  EXPECT_EQ(v.findings_size(), 0) << Show(v);
  EXPECT_GE(v.not_measured_size(), 1);
  job.host_runs_ahead = false;
  v = Analyze(job.Run());
  ASSERT_EQ(v.findings_size(), 1) << Show(v);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{3});
}

TEST(Slow, ClockSkewAndClockStepsChangeNothing) {
  for (bool straggler : {false, true}) {
    TimedJob job;
    job.tp = 4, job.dp = 4, job.steps = 12;
    if (straggler) job.compute_factor = [](int rank, int) { return rank == 7 ? 1.4 : 1.0; };
    const Bundle plain = job.Run();
    job.clock = [](int host, int64_t t) {
      return t + 20'000'000'000 + host * 1'700'000'000ll + (host == 1 && t > 1'200'000'000 ? -5'000'000'000 : 0);
    };
    const Bundle skewed = job.Run();
    const Verdict a = Analyze(plain), b = Analyze(skewed);
    EXPECT_EQ(a.verdict(), b.verdict()) << Show(b);
    ASSERT_EQ(a.findings_size(), b.findings_size()) << Show(b);
    for (int i = 0; i < a.findings_size(); ++i) EXPECT_EQ(Culprits(a.findings(i)), Culprits(b.findings(i)));
  }
}

TEST(Slow, HostileTimesDoNoHarm) {
  TimedJob job;
  job.pp = 2;
  uint64_t random = 99;
  const int64_t odd[] = {
      INT64_MIN, INT64_MAX, -1, 0, 1, (int64_t{1} << 61) - 1, int64_t{1} << 61, 7'000'000'000'000'000'000};
  for (int round = 0; round < 20; ++round) {
    Bundle bundle = job.Run();
    for (Rank& rank : bundle.ranks) {
      rank.time_uncertainty_ns = odd[random % 8];
      rank.time_source = static_cast<TimeSource>(random / 8 % 6);
      for (Op& op : rank.ops) {
        for (int64_t* t : {&op.enter_ns, &op.started_ns, &op.completed_ns, &op.seq, &op.count}) {
          random = random * 6364136223846793005ull + 1442695040888963407ull;
          if (random >> 61 == 0) *t = odd[(random >> 40) % 8];
        }
      }
    }
    Analyze(bundle);
  }
}

// There are two pairs. Ranks 1 and 3 enter their pair's operation 18 ms late, and all ranks do 20 ms of CPU work after
// it. Ranks 0 and 2 do this work while they wait, so the wait is not part of their own time, and no step gets longer.
TEST(Slow, AConstantLagThatOverlapsTheWaitersOwnWorkIsNoStraggler) {
  constexpr int64_t kMs = 1'000'000;
  Bundle bundle;
  bundle.ranks_expected = 4;
  for (const auto& [name, members] : std::vector<std::pair<std::string, std::vector<int32_t>>>{
           {"tp_0", {0, 1}}, {"tp_1", {2, 3}}, {"dp_0", {0, 2}}, {"dp_1", {1, 3}}}) {
    Communicator comm;
    comm.id = comm.name = name;
    comm.size = 2;
    comm.members = members;
    bundle.comms.push_back(comm);
  }
  for (int32_t r = 0; r < 4; ++r) {
    Rank rank;
    rank.rank = r;
    rank.host = "node";
    rank.gpu_marks = ring::GpuMarks::kFull;
    rank.time_source = TimeSource::kSampledMarks;
    rank.time_uncertainty_ns = 10 * kMs;
    rank.memberships.resize(2);
    rank.memberships[0].comm = static_cast<uint32_t>(r / 2);
    rank.memberships[0].member_rank = r % 2;
    rank.memberships[1].comm = static_cast<uint32_t>(2 + r % 2);
    rank.memberships[1].member_rank = r / 2;
    const int64_t lag = r % 2 == 1 ? 18 * kMs : 0;
    for (int64_t step = 0; step < 60; ++step) {
      const int64_t begin = 1000 * kMs + step * 20 * kMs;
      for (const uint32_t membership : {0u, 1u}) {
        Op op;
        op.membership = membership;
        op.kind = ring::CallKind::kAllReduce;
        op.state = OpState::kCompleted;
        op.seq = step + 1;
        op.count = 256;
        op.started_ns = membership == 0 ? begin + lag : begin + lag + 19 * kMs;
        op.completed_ns = membership == 0 ? begin + 18 * kMs + kMs / 2 : op.started_ns + kMs / 4;
        op.enter_ns = op.started_ns - kMs / 10;
        op.return_ns = op.enter_ns + kMs / 20;
        op.index = static_cast<int64_t>(rank.ops.size());
        op.thread = 0;
        rank.ops.push_back(op);
      }
    }
    for (Membership& ms : rank.memberships) ms.issued = ms.completed = 60;
    rank.captured_ns = rank.ops.back().completed_ns + kMs;
    bundle.ranks.push_back(std::move(rank));
  }
  const Verdict v = Analyze(bundle);
  EXPECT_EQ(v.findings_size(), 0) << Show(v);
}

}  // namespace
}  // namespace lockstep
