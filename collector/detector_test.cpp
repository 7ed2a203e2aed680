#include "collector/detector.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;
constexpr uint64_t kComm = 9;

// A job of two ranks on one communicator, driven by an injected clock.
class DetectorTest : public testing::Test {
 protected:
  DetectorTest() {
    for (int slot = 0; slot < 2; ++slot) {
      DigestView view;
      view.slot = slot;
      DigestComm comm;
      comm.id = kComm;
      comm.size = 2;
      comm.active = true;
      view.comms.push_back(comm);
      views_.push_back(view);
    }
  }

  // Both ranks step together, `gap` apart.
  void Run(int steps, int64_t gap) {
    for (int i = 0; i < steps; ++i) {
      now_ += gap;
      for (DigestView& view : views_) Issue(&view);
      detector_.Observe(now_, views_);
    }
  }
  void Issue(DigestView* view) {
    ++view->comms[0].collectives;
    ++view->comms[0].total;
    view->comms[0].issued_ns = now_;
    ++view->progress_mark;
  }
  // Rank 0 enters the next operation and waits in it; rank 1 does not come.
  void Stall() {
    Issue(&views_[0]);
    views_[0].blocked_since_ns = now_;
    views_[0].doing = "in cudaStreamSynchronize";
    detector_.Observe(now_, views_);
  }
  void Pass(int64_t time) {
    now_ += time;
    detector_.Observe(now_, views_);
  }
  static RootFinding HostStall() {
    RootFinding finding;
    finding.kind = HOST_STALL;
    finding.comm = kComm;
    RootView root;
    root.slot = 1;
    root.sample_gap_ns = kSecond + 50 * kMs;
    root.cpu_ns = 0;
    root.io_bytes = 0;
    finding.roots = {root};
    finding.involved = {0, 1};
    return finding;
  }

  int64_t now_ = 1000 * kSecond;
  std::vector<DigestView> views_;
  Detector detector_{DetectorLimits{}};
};

TEST_F(DetectorTest, GapHistoryForgetsBeyond256) {
  GapHistory gaps;
  EXPECT_EQ(gaps.P99(), 0);
  gaps.Add(1000);
  EXPECT_EQ(gaps.P99(), 1000);
  gaps.Add(10);
  EXPECT_EQ(gaps.P99(), 10) << "one outlier sets no limit";
  for (int i = 0; i < 256; ++i) gaps.Add(10);
  for (int i = 0; i < 3; ++i) gaps.Add(500);
  EXPECT_EQ(gaps.P99(), 10);
  gaps.Add(500);
  EXPECT_EQ(gaps.P99(), 500);
}

TEST_F(DetectorTest, ASlowWatcherLearnsNoGapsOfItsOwn) {
  for (int look = 0; look < 50; ++look) {
    // Three seconds pass between looks; the job made a hundred steps of 30 ms.
    for (int i = 0; i < 100; ++i) {
      now_ += 30 * kMs;
      for (DigestView& view : views_) Issue(&view);
    }
    detector_.Observe(now_, views_);
  }
  EXPECT_EQ(detector_.LimitOf(kComm), 5 * kSecond);
}

TEST_F(DetectorTest, PausesBetweenBurstsAreLearned) {
  for (int step = 0; step < 50; ++step) {
    for (int look = 0; look < 40; ++look) Pass(100 * kMs);
    for (int i = 0; i < 100; ++i) {
      for (DigestView& view : views_) Issue(&view);
    }
  }
  EXPECT_GE(detector_.LimitOf(kComm), 8 * 3900 * kMs);
}

TEST_F(DetectorTest, AMovingJobIsNeverSuspicious) {
  for (int i = 0; i < 100; ++i) {
    Run(10, 100 * kMs);
    EXPECT_FALSE(detector_.Suspicious(now_));
  }
}

TEST_F(DetectorTest, ASleepingRootIsHungAfterTheHostStallLimitOnly) {
  Run(20, 100 * kMs);
  Stall();
  Pass(4 * kSecond);
  EXPECT_FALSE(detector_.Suspicious(now_));
  Pass(2 * kSecond);
  EXPECT_TRUE(detector_.Suspicious(now_));
  EXPECT_FALSE(detector_.Judge(now_, HostStall()).hung) << "late, not hung";
  Pass(4 * kSecond);
  const Decision decision = detector_.Judge(now_, HostStall());
  EXPECT_TRUE(decision.hung);
  EXPECT_EQ(decision.stalled_ns, 10 * kSecond);
}

TEST_F(DetectorTest, ARootThatWorksIsAtMostLateUntilTheHardLimit) {
  Run(20, 100 * kMs);
  Stall();
  RootFinding busy = HostStall(), writing = HostStall(), unsampled = HostStall(), watchdog = HostStall();
  busy.roots[0].cpu_ns = kSecond / 2;
  writing.roots[0].io_bytes = 1 << 20;
  unsampled.roots[0].sample_gap_ns = 0;
  watchdog.roots[0].cpu_ns = 10 * kMs;
  watchdog.roots[0].io_bytes = 100;
  Pass(60 * kSecond);
  EXPECT_FALSE(detector_.Judge(now_, busy).hung);
  EXPECT_FALSE(detector_.Judge(now_, writing).hung);
  EXPECT_FALSE(detector_.Judge(now_, unsampled).hung);
  EXPECT_TRUE(detector_.Judge(now_, watchdog).hung) << "threads that only keep watch are no progress";
  Pass(241 * kSecond);
  EXPECT_TRUE(detector_.Judge(now_, busy).hung);
}

TEST_F(DetectorTest, ADeadRootIsHungAfterASecond) {
  Run(20, 100 * kMs);
  Stall();
  views_[1].alive = false;
  RootFinding dead = HostStall();
  dead.kind = RANK_DEAD;
  dead.roots[0].ended = true;
  Pass(500 * kMs);
  EXPECT_FALSE(detector_.Suspicious(now_));
  EXPECT_FALSE(detector_.Judge(now_, dead).hung);
  Pass(600 * kMs);
  EXPECT_TRUE(detector_.Suspicious(now_));
  EXPECT_TRUE(detector_.Judge(now_, dead).hung);
}

TEST_F(DetectorTest, NobodyWaitsForADeadRankThenNothingHangs) {
  Run(20, 100 * kMs);
  views_[1].alive = false;
  Pass(100 * kSecond);
  EXPECT_FALSE(detector_.Suspicious(now_));
  RootFinding dead = HostStall();
  dead.kind = RANK_DEAD;
  dead.roots[0].ended = true;
  EXPECT_FALSE(detector_.Judge(now_, dead).hung);
}

TEST_F(DetectorTest, AStoppedRootOrADisagreementIsHungWhenLate) {
  Run(20, 100 * kMs);
  Stall();
  RootFinding stopped = HostStall(), mismatch = HostStall();
  stopped.roots[0].stopped = true;
  mismatch.kind = MISMATCH_COUNT;
  mismatch.roots[0].cpu_ns = kSecond;
  Pass(4900 * kMs);
  EXPECT_FALSE(detector_.Judge(now_, stopped).hung);
  EXPECT_FALSE(detector_.Judge(now_, mismatch).hung);
  Pass(200 * kMs);
  EXPECT_TRUE(detector_.Judge(now_, stopped).hung);
  EXPECT_TRUE(detector_.Judge(now_, mismatch).hung);
}

TEST_F(DetectorTest, TheLimitIsLearnedFromTheCommunicatorsGaps) {
  Run(50, 4 * kSecond);
  Stall();
  EXPECT_EQ(detector_.LimitOf(kComm), 32 * kSecond);
  Pass(31 * kSecond);
  EXPECT_FALSE(detector_.Judge(now_, HostStall()).hung);
  Pass(2 * kSecond);
  EXPECT_TRUE(detector_.Judge(now_, HostStall()).hung);
}

TEST_F(DetectorTest, AFirstOperationIsGivenAMinute) {
  Run(1, kSecond);
  Stall();
  Pass(59 * kSecond);
  EXPECT_FALSE(detector_.Judge(now_, HostStall()).hung);
  RootFinding stopped = HostStall();
  stopped.roots[0].stopped = true;
  EXPECT_TRUE(detector_.Judge(now_, stopped).hung);
  Pass(2 * kSecond);
  EXPECT_TRUE(detector_.Judge(now_, HostStall()).hung);
}

TEST_F(DetectorTest, ProgressElsewhereAmongTheInvolvedHoldsTheVerdictBack) {
  Run(20, 100 * kMs);
  Stall();
  Pass(9 * kSecond);
  ++views_[1].progress_mark;  // the root finished something on another communicator
  Pass(kSecond);
  EXPECT_FALSE(detector_.Judge(now_, HostStall()).hung);
  Pass(10 * kSecond);
  EXPECT_TRUE(detector_.Judge(now_, HostStall()).hung);
}

TEST_F(DetectorTest, AnIdleJobWaitsForNobody) {
  Run(20, 100 * kMs);
  Pass(3600 * kSecond);
  EXPECT_FALSE(detector_.Suspicious(now_));
  EXPECT_EQ(detector_.LongestWait(now_, nullptr, nullptr), 0);
}

TEST_F(DetectorTest, WithoutHostWaitsARankAheadCountsAsWaiting) {
  Run(20, 100 * kMs);
  now_ += 100 * kMs;
  Issue(&views_[0]);
  detector_.Observe(now_, views_);
  Pass(6 * kSecond);
  EXPECT_TRUE(detector_.Suspicious(now_));
}

TEST_F(DetectorTest, GpuTicketsThatStandStillCountAsWaiting) {
  Run(20, 100 * kMs);
  views_[0].gpu_in_flight = views_[1].gpu_in_flight = true;
  Pass(11 * kSecond);
  EXPECT_TRUE(detector_.Suspicious(now_));
  RootFinding gpu = HostStall();
  gpu.kind = GPU_STALL;
  EXPECT_TRUE(detector_.Judge(now_, gpu).hung);
}

TEST_F(DetectorTest, TimeBeforeARebaseIsForgiven) {
  Run(20, 100 * kMs);
  Stall();
  now_ += 3600 * kSecond;
  detector_.Rebase(now_);
  detector_.Observe(now_, views_);
  EXPECT_FALSE(detector_.Suspicious(now_));
  Pass(11 * kSecond);
  EXPECT_TRUE(detector_.Judge(now_, HostStall()).hung);
}

TEST_F(DetectorTest, AWaitThatRecoveredRaisesTheLimit) {
  Run(20, 100 * kMs);
  Stall();
  Pass(20 * kSecond);
  ASSERT_TRUE(detector_.Judge(now_, HostStall()).hung);
  detector_.Recovered(20 * kSecond);
  views_[0].blocked_since_ns = 0;
  Issue(&views_[1]);
  Run(300, 100 * kMs);
  Stall();
  Pass(39 * kSecond);
  EXPECT_FALSE(detector_.Judge(now_, HostStall()).hung);
  Pass(2 * kSecond);
  EXPECT_TRUE(detector_.Judge(now_, HostStall()).hung);
}

TEST_F(DetectorTest, ADayOfAHealthyJobWithLongCheckpointsIsNeverHung) {
  int64_t longest = 0;
  for (int hour = 0; hour < 24; ++hour) {
    Run(600, 500 * kMs);
    // Rank 1 writes a checkpoint for four minutes; its peer waits.
    Stall();
    for (int second = 0; second < 240; ++second) {
      Pass(kSecond);
      RootFinding writing = HostStall();
      writing.roots[0].io_bytes = 50 << 20;
      EXPECT_FALSE(detector_.Judge(now_, writing).hung);
      longest = std::max(longest, detector_.LongestWait(now_, nullptr, nullptr));
    }
    views_[0].blocked_since_ns = 0;
    Issue(&views_[1]);
    detector_.Observe(now_, views_);
  }
  EXPECT_EQ(longest, 240 * kSecond);
}

}  // namespace
}  // namespace lockstep
