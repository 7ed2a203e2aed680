#include "analyzer/engine/facts/clock.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "analyzer/testing/timed_job.h"

namespace lockstep {
namespace {

using testing::TimedJob;

struct Aligned {
  explicit Aligned(const Bundle& b) : bundle(b), model(bundle, {}), timing(model), clocks(timing) {}
  Bundle bundle;
  Model model;
  Timing timing;
  Clocks clocks;
};

// Checks host h's offset to host 0 against the truth, within the stated uncertainty.
void ExpectOffset(const Aligned& a, int host, int64_t truth) {
  const HostClock& clock = a.clocks.clocks[static_cast<size_t>(host)];
  ASSERT_TRUE(clock.aligned()) << host;
  const ClockEpoch& e = clock.epochs.back();
  EXPECT_LE(std::llabs(e.offset_ns - truth), e.uncertainty_ns + 1000) << host;
}

TEST(Clocks, OffsetsOfSecondsAreFoundWithinTheirUncertainty) {
  TimedJob job;
  job.tp = 4, job.dp = 8;
  job.clock = [](int host, int64_t t) { return t + host * 700'000'000ll + 1'000'000'000; };
  const Aligned a(job.Run());
  ASSERT_EQ(a.clocks.clocks.size(), 8u);
  for (int h = 1; h < 8; ++h) {
    ExpectOffset(a, h, -h * 700'000'000ll);
    EXPECT_LT(a.clocks.clocks[static_cast<size_t>(h)].epochs.back().uncertainty_ns, 5'000'000);
    EXPECT_EQ(a.clocks.clocks[static_cast<size_t>(h)].epochs.size(), 1u);
  }
  Verdict verdict;
  a.clocks.Fill(&verdict);
  ASSERT_EQ(verdict.clocks_size(), 8);
  EXPECT_EQ(verdict.clocks(0).host(), "node0");
  EXPECT_EQ(verdict.clocks(0).offset_ns(), 0);
}

TEST(Clocks, SampledMarkersIncreaseTheUncertainty) {
  TimedJob job;
  job.tp = 4, job.dp = 4, job.source = TimeSource::kSampledMarks, job.sampled_every_ns = 10'000'000;
  job.clock = [](int host, int64_t t) { return t - host * 50'000'000ll; };
  const Aligned a(job.Run());
  for (int h = 1; h < 4; ++h) ExpectOffset(a, h, h * 50'000'000ll);
}

TEST(Clocks, AStepIsDetectedAndBothSidesAreAlignedSeparately) {
  for (int64_t step : {5'000'000'000ll, -5'000'000'000ll, -60'000'000ll}) {
    TimedJob job;
    job.tp = 4, job.dp = 4, job.steps = 10;
    job.clock = [&](int host, int64_t t) { return t + 20'000'000'000 + (host == 2 && t > 1'150'000'000 ? step : 0); };
    const Aligned a(job.Run());
    EXPECT_EQ(a.clocks.clocks[1].epochs.size(), 1u) << step;
    ASSERT_EQ(a.clocks.clocks[2].epochs.size(), 2u) << step;
    EXPECT_EQ(a.clocks.clocks[3].epochs.size(), 1u) << step;
    EXPECT_NEAR(static_cast<double>(a.clocks.clocks[2].epochs[0].offset_ns), 0, 5e6);
    ExpectOffset(a, 2, -step);
    Verdict verdict;
    a.clocks.Fill(&verdict);
    EXPECT_TRUE(verdict.clocks(2).stepped());
    EXPECT_FALSE(verdict.clocks(1).stepped());
  }
}

TEST(Clocks, AStepOfTheFirstHostIsBlamedOnThatHost) {
  TimedJob job;
  job.tp = 4, job.dp = 4, job.steps = 10;
  job.clock = [&](int host, int64_t t) { return t + (host == 0 && t > 1'150'000'000 ? 3'000'000'000 : 0); };
  const Aligned a(job.Run());
  EXPECT_EQ(a.clocks.clocks[0].epochs.size(), 2u);
  for (size_t h = 1; h < 4; ++h) EXPECT_EQ(a.clocks.clocks[h].epochs.size(), 1u) << h;
}

TEST(Clocks, DriftIsNotAStep) {
  TimedJob job;
  job.tp = 2, job.dp = 4, job.gpus_per_host = 2, job.steps = 60, job.compute_ns = 50'000'000;
  job.clock = [](int host, int64_t t) { return t + static_cast<int64_t>(static_cast<double>(t) * 60e-6 * host); };
  const Aligned a(job.Run());
  for (size_t h = 1; h < 4; ++h) {
    ASSERT_EQ(a.clocks.clocks[h].epochs.size(), 1u) << h;
    EXPECT_NEAR(a.clocks.clocks[h].epochs[0].drift, -60e-6 * static_cast<double>(h), 5e-6);
  }
  // A time in the middle of the run is converted correctly.
  const int64_t t = 8'000'000'000, shown = t + static_cast<int64_t>(static_cast<double>(t) * 60e-6 * 3);
  EXPECT_NEAR(static_cast<double>(a.clocks.ToJob(7, shown)), static_cast<double>(t), 2e6);
}

TEST(Clocks, CreatingACommunicatorAlignsHostsWithoutGpuTimes) {
  TimedJob job;
  job.tp = 2, job.dp = 2, job.gpus_per_host = 2, job.record_started = job.record_completed = false;
  job.clock = [](int host, int64_t t) { return t + host * 1'000'000'000; };
  Bundle bundle = job.Run();
  for (Rank& rank : bundle.ranks) {
    const int host = rank.rank / 2;
    rank.real_minus_mono_ns = host * -1'000'000'000;  // the wall clocks agree
    for (Membership& m : rank.memberships) {
      m.created_ns = job.clock(host, 500'000'000 + rank.rank * 1'000'000);
      m.ready_ns = job.clock(host, 520'000'000);
    }
  }
  const Aligned a(bundle);
  ASSERT_TRUE(a.clocks.clocks[1].aligned());
  ExpectOffset(a, 1, -1'000'000'000);
  EXPECT_LE(a.clocks.clocks[1].epochs[0].uncertainty_ns, 20'000'000);
}

TEST(Clocks, HostsWithoutCommonOperationsAreNotAligned) {
  TimedJob job;
  job.tp = 4, job.dp = 1;
  Bundle bundle = job.Run();
  Rank lone;
  lone.rank = 4;
  lone.host = "elsewhere";
  bundle.ranks.push_back(lone);
  const Aligned a(bundle);
  EXPECT_FALSE(a.clocks.Aligned(4));
  EXPECT_EQ(a.clocks.Uncertainty(4, 5), -1);
  EXPECT_EQ(a.clocks.ToJob(4, 5), 5);
}

TEST(Clocks, HostileTimesAreHarmless) {
  TimedJob job;
  job.tp = 2, job.dp = 4, job.gpus_per_host = 1;
  Bundle bundle = job.Run();
  uint64_t random = 1;
  const int64_t odd[] = {
      INT64_MIN, INT64_MAX, -1, 0, 1, (int64_t{1} << 61) - 1, int64_t{1} << 61, 7'000'000'000'000'000'000};
  for (Rank& rank : bundle.ranks) {
    for (Op& op : rank.ops) {
      for (int64_t* t : {&op.enter_ns, &op.started_ns, &op.completed_ns}) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        if (random >> 63) *t = odd[(random >> 40) % 8];
      }
      if (random >> 62 == 3) op.seq = odd[(random >> 30) % 8];
    }
    for (Membership& m : rank.memberships) m.created_ns = odd[random % 8], m.ready_ns = odd[random / 8 % 8];
  }
  const Aligned a(bundle);
  Verdict verdict;
  a.clocks.Fill(&verdict);
  for (size_t r = 0; r < bundle.ranks.size(); ++r) {
    for (int64_t t : odd) a.clocks.ToJob(r, t), a.clocks.Uncertainty(r, t);
  }
}

TEST(Clocks, AWorldOf24576RanksTakesLinearTime) {
  // This is not a timing test: a quadratic pass over 3,072 hosts in one communicator would not end.
  Bundle bundle;
  constexpr int kRanks = 24'576;
  Communicator world;
  world.id = world.name = "world";
  world.size = kRanks;
  for (int r = 0; r < kRanks; ++r) world.members.push_back(r);
  bundle.comms.push_back(world);
  for (int r = 0; r < kRanks; ++r) {
    Rank rank;
    rank.rank = r;
    rank.host = "n" + std::to_string(r / 8);
    rank.source = Source::kDump;
    Membership m;
    m.comm = 0;
    m.member_rank = r;
    rank.memberships.push_back(m);
    const int64_t offset = (r / 8) % 1000 * 1'000'000ll;
    for (int i = 0; i < 16; ++i) {
      Op op;
      op.membership = 0, op.kind = ring::CallKind::kAllReduce, op.seq = i + 1, op.state = OpState::kCompleted;
      const int64_t t = 1'000'000'000 + i * 10'000'000ll + offset;
      op.enter_ns = t - 1000, op.started_ns = t, op.completed_ns = t + 1'000'000;
      rank.ops.push_back(op);
    }
    bundle.ranks.push_back(std::move(rank));
  }
  const Aligned a(bundle);
  ASSERT_EQ(a.clocks.clocks.size(), 3072u);
  EXPECT_EQ(a.clocks.clocks[999].epochs[0].offset_ns, -999'000'000);
}

}  // namespace
}  // namespace lockstep
