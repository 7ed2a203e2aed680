#include "collector/detect/detector.h"
#include "analyzer/util/time_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace lockstep {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kComm = 9;

// One communicator on two hosts, with a simulated clock.
class DetectorTest : public ::testing::Test {
 protected:
  // Host 0 has issued `a` collectives, host 1 `b`, the last one `age` ago.
  void Beat(uint64_t a, uint64_t b, int64_t age = 0) {
    for (uint32_t host = 0; host < 2; ++host) {
      CommBeat beat;
      beat.comm = kComm;
      beat.size = 16;
      beat.name = "dp_0";
      beat.issued_min = beat.issued_max = beat.total_max = host == 0 ? a : b;
      beat.issue_age_ns = age;
      beat.members = Ranks::Of(host == 0 ? std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}
                                         : std::vector<int32_t>{8, 9, 10, 11, 12, 13, 14, 15});
      beat.p99_gap_ns = p99_;
      beat.gaps = 256;
      detector_.progress().Apply(host, now_, beat);
    }
  }
  void Warm() {
    Beat(100, 100);
    detector_.Tick(now_);
    now_ += kSecond;
    detector_.Tick(now_);
  }
  std::vector<Decision> Pass(int64_t time) {
    std::vector<Decision> all;
    for (int64_t passed = 0; passed < time; passed += 100 * kMs) {
      now_ += 100 * kMs;
      for (Decision& decision : detector_.Tick(now_)) all.push_back(decision);
    }
    return all;
  }
  // Host 0 has issued the next operation; host 1 does not arrive.
  void Stall() {
    began_ = now_;
    Beat(101, 100);
  }
  RootFinding Finding(FindingKind kind = HOST_STALL) {
    RootFinding finding;
    finding.kind = kind;
    finding.comm = kComm;
    finding.comm_size = 16;
    RootView root;
    root.rank = 8;
    root.sample_gap_ns = kSecond;
    root.cpu_ns = 0;
    root.io_bytes = 0;
    finding.roots = {root};
    finding.involved = {0, 8};
    finding.comms = {kComm};
    finding.still_ns = finding.waited_ns = now_ - began_;
    return finding;
  }
  // Judges a Finding() every half second until the job is hung. Returns the seconds since the stall began, or -1.
  double HungAfter(double most, const std::function<void(RootFinding*)>& change, FindingKind kind = HOST_STALL) {
    while (now_ - began_ < static_cast<int64_t>(most * 1e9)) {
      Pass(kSecond / 2);
      RootFinding finding = Finding(kind);
      change(&finding);
      if (!detector_.Suspicious(now_)) continue;
      if (const Decision decision = detector_.Judge(now_, finding); decision.hung()) {
        last_ = decision;
        return static_cast<double>(now_ - began_) / 1e9;
      }
    }
    return -1;
  }

  int64_t now_ = 1000 * kSecond, began_ = 0, p99_ = 30 * kMs;
  Detector detector_{DetectorLimits{}};
  Decision last_;
};

TEST_F(DetectorTest, AMissingMemberIsLateAfterTheLimit) {
  Warm();
  Stall();
  EXPECT_TRUE(Pass(4500 * kMs).empty());
  EXPECT_EQ(detector_.level(), Level::kMoving);
  const std::vector<Decision> late = Pass(kSecond);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].level, Level::kLate);
  EXPECT_EQ(late[0].comm_name, "dp_0");
  EXPECT_EQ(late[0].sequence, 101u);
  EXPECT_EQ(late[0].limit_ns, 5 * kSecond);
  EXPECT_EQ(late[0].p99_gap_ns, 30 * kMs);
  EXPECT_EQ(late[0].gaps, 256u);
  EXPECT_GE(late[0].age_ns, 5 * kSecond);
  EXPECT_EQ(late[0].missing.Text(), "8-15");
  EXPECT_TRUE(detector_.Wanted(now_).digests);
}

TEST_F(DetectorTest, AJobThatMovesAgainHasRecovered) {
  Warm();
  Stall();
  Pass(7 * kSecond);
  ASSERT_EQ(detector_.level(), Level::kLate);
  Beat(101, 101);
  const std::vector<Decision> over = Pass(2 * kSecond);
  ASSERT_EQ(over.size(), 1u);
  EXPECT_EQ(over[0].level, Level::kRecovered);
  EXPECT_EQ(over[0].rule, "late");
  EXPECT_EQ(detector_.level(), Level::kMoving);
  EXPECT_FALSE(detector_.Suspicious(now_));
}

TEST_F(DetectorTest, TheLimitIsEightTimesTheLearnedGap) {
  p99_ = 4 * kSecond;
  Warm();
  EXPECT_EQ(detector_.LimitOf(kComm), 32 * kSecond);
  Stall();
  EXPECT_TRUE(Pass(31 * kSecond).empty());
  EXPECT_EQ(Pass(2 * kSecond).size(), 1u);
}

TEST_F(DetectorTest, AnAgentsReportBeginsAndEndsLatenessAtOnce) {
  Warm();
  LateInput report;
  report.comm = kComm;
  report.sequence = 101;
  report.in_flight_ns = 5100 * kMs;
  report.limit_ns = 5 * kSecond;
  report.waiting = Ranks::Of({0, 1});
  report.host = "a";
  detector_.Late(now_, report);
  report.host = "b";
  detector_.Late(now_, report);
  EXPECT_EQ(Pass(100 * kMs).size(), 1u);
  EXPECT_TRUE(detector_.Suspicious(now_));
  report.over = true;
  detector_.Late(now_, report);
  EXPECT_TRUE(Pass(kSecond).empty()) << "host a still waits";
  report.host = "a";
  detector_.Late(now_, report);
  EXPECT_EQ(Pass(100 * kMs).size(), 1u);
  EXPECT_EQ(detector_.level(), Level::kMoving);
}

TEST_F(DetectorTest, ThousandsOfLateCommunicatorsAreSummarized) {
  size_t told = 0;
  for (uint64_t comm = 1; comm <= 10'000; ++comm) {
    LateInput report;
    report.comm = comm;
    report.in_flight_ns = 6 * kSecond;
    report.host = "a";
    detector_.Late(now_, report);
  }
  told += Pass(kSecond).size();
  EXPECT_EQ(told, Detector::kToldLates);
  EXPECT_EQ(detector_.Consider(now_, Finding()).more, 10'000 - Detector::kToldLates);
}

TEST_F(DetectorTest, ARootThatSleepsIsHungAfterTenSeconds) {
  Warm();
  Stall();
  EXPECT_NEAR(HungAfter(60, [](RootFinding*) {}), 10, 0.6);
  EXPECT_EQ(last_.rule, "host stall");
  EXPECT_EQ(last_.limit_ns, 10 * kSecond);
  EXPECT_GE(last_.samples, 4u);
  EXPECT_GE(last_.idle_ns, 4 * kSecond);
  EXPECT_EQ(detector_.level(), Level::kHung);
}

TEST_F(DetectorTest, ARootThatItsAgentSawSleepWithoutAGapIsHungAfterNineSeconds) {
  Warm();
  Stall();
  EXPECT_NEAR(
      HungAfter(60, [&](RootFinding* f) { f->roots[0].idle_ns = std::max<int64_t>(0, f->still_ns - 3 * kSecond); }), 9,
      0.6);
  EXPECT_EQ(last_.limit_ns, 9 * kSecond);
}

TEST_F(DetectorTest, AVerdictFromOldDigestsIsFollowedByASampleAtOnce) {
  Warm();
  Stall();
  Pass(5 * kSecond + kSecond / 2);
  const int64_t asked = now_;
  RootFinding finding = Finding();
  finding.roots[0].idle_ns = 2 * kSecond;
  finding.as_of_ns = asked;
  Pass(6 * kSecond);  // until the digests of all hosts have arrived and been analyzed
  // The root's activity since then is unknown.
  EXPECT_FALSE(detector_.Judge(now_, finding).hung());
  EXPECT_THAT(detector_.Wanted(now_).samples, ElementsAre(8));
  finding = Finding();
  finding.as_of_ns = now_;
  finding.roots[0].idle_ns = 8 * kSecond;
  const Decision decision = detector_.Judge(now_, finding, false);
  EXPECT_TRUE(decision.hung());
  EXPECT_GE(decision.idle_ns, 8 * kSecond);
}

TEST_F(DetectorTest, AVerdictFromOldDigestsIsNotAHangIfTheRootHasWorkedSince) {
  Warm();
  Stall();
  Pass(5 * kSecond + kSecond / 2);
  RootFinding finding = Finding();
  finding.roots[0].idle_ns = 2 * kSecond;
  finding.as_of_ns = now_;
  Pass(6 * kSecond);
  EXPECT_FALSE(detector_.Judge(now_, finding).hung());
  finding = Finding();
  finding.as_of_ns = now_;
  finding.roots[0].cpu_ns = kSecond / 2;
  EXPECT_FALSE(detector_.Judge(now_, finding, false).hung());
}

// CUDA's waits spin, so CPU time there does not show work.
TEST_F(DetectorTest, ARootThatSpinsInAWaitDidNotWork) {
  Warm();
  Stall();
  const auto spins = [](RootFinding* f) {
    f->roots[0].in_recorded_call = f->roots[0].waits_for_compute = true;
    f->roots[0].cpu_ns = kSecond;
  };
  EXPECT_EQ(HungAfter(8, spins, GPU_STALL), -1);
  const double hung = HungAfter(40, [](RootFinding*) {});
  EXPECT_GT(hung, 8);
  EXPECT_LT(hung, 16);
}

// The sample was requested while the root worked, and taken just after it stopped. The root was not idle before that.
TEST_F(DetectorTest, TimeSpentWaitingForASampleDoesNotCountAsIdle) {
  Warm();
  Stall();
  Pass(6 * kSecond);
  RootFinding late = Finding();
  late.as_of_ns = now_;
  late.roots[0].after_ns = 8 * kSecond;
  Pass(8 * kSecond);
  EXPECT_FALSE(detector_.Judge(now_, late).hung());
  const int64_t seen = now_;
  while (now_ - seen < 20 * kSecond) {
    RootFinding finding = Finding();
    finding.as_of_ns = now_;
    if (detector_.Judge(now_, finding).hung()) break;
    Pass(kSecond);
  }
  EXPECT_EQ(detector_.level(), Level::kHung);
  EXPECT_GE(now_ - seen, 3 * kSecond) << "the root had been idle for a second when it was seen";
  EXPECT_LE(now_ - seen, 4 * kSecond);
}

TEST_F(DetectorTest, ARootThatComputesReadsOrWritesIsAtMostLate) {
  Warm();
  Stall();
  EXPECT_EQ(HungAfter(1200, [](RootFinding* f) { f->roots[0].cpu_ns = kSecond / 2; }), -1);
  EXPECT_EQ(HungAfter(2400, [](RootFinding* f) { f->roots[0].io_bytes = 1 << 20; }), -1);
  EXPECT_EQ(HungAfter(3600, [](RootFinding* f) { f->roots[0].activity_age_ns = kSecond; }), -1);
}

TEST_F(DetectorTest, IoInBurstsIsProgress) {
  Warm();
  Stall();
  int look = 0;
  EXPECT_EQ(HungAfter(600, [&](RootFinding* f) { f->roots[0].io_bytes = ++look % 6 == 0 ? 8 << 20 : 0; }), -1);
}

TEST_F(DetectorTest, ThreadsThatOnlyWatchAreNotProgress) {
  Warm();
  Stall();
  EXPECT_NEAR(HungAfter(60,
                        [](RootFinding* f) {
                          f->roots[0].cpu_ns = 10 * kMs;
                          f->roots[0].io_bytes = 100;
                        }),
              10, 0.6);
}

TEST_F(DetectorTest, AWaitForAFileServerIsGivenMoreTime) {
  Warm();
  Stall();
  EXPECT_NEAR(HungAfter(60, [](RootFinding* f) { f->roots[0].uninterruptible = true; }), 30, 0.6);
  EXPECT_EQ(last_.rule, "storage stall");
}

TEST_F(DetectorTest, ARankThatCannotBeSampledIsHungLate) {
  Warm();
  Stall();
  EXPECT_EQ(HungAfter(299, [](RootFinding* f) { f->roots[0].sample_gap_ns = 0; }), -1);
  EXPECT_NEAR(HungAfter(400, [](RootFinding* f) { f->roots[0].sample_gap_ns = 0; }), 300, 1);
  EXPECT_EQ(last_.rule, "unseen");
}

TEST_F(DetectorTest, UnreadableIoIsNotTakenForNoIo) {
  Warm();
  Stall();
  EXPECT_NEAR(HungAfter(400, [](RootFinding* f) { f->roots[0].io_bytes = -1; }), 300, 1);
}

TEST_F(DetectorTest, AServerWithoutRequestsIsAtMostLate) {
  Warm();
  Stall();
  EXPECT_EQ(HungAfter(7200, [](RootFinding* f) { f->roots[0].event_loop = true; }), -1);
}

TEST_F(DetectorTest, ADeadRootIsHungAfterASecond) {
  Warm();
  Stall();
  detector_.Ended(now_, 8, EndKind::kKilled);
  EXPECT_NEAR(HungAfter(
                  60, [](RootFinding* f) { f->roots[0].ended = true; }, RANK_DEAD),
              1, 0.6);
  EXPECT_EQ(last_.rule, "dead");
}

// A canceled job exits rank by rank, and in its last heartbeats some ranks are behind.
TEST_F(DetectorTest, ACancelledJobIsNotAHang) {
  Warm();
  Stall();
  detector_.Ended(now_, 8, EndKind::kKilled);
  EXPECT_EQ(HungAfter(
                300,
                [](RootFinding* f) {
                  f->roots[0].ended = f->roots[0].cancelled = true;
                  f->waited_ns = 0;
                },
                RANK_DEAD),
            -1);
}

TEST_F(DetectorTest, ASingleCancelledRankIsHungWhenTheOthersHadTimeToEnd) {
  Warm();
  Stall();
  detector_.Ended(now_, 8, EndKind::kKilled);
  EXPECT_NEAR(HungAfter(
                  60, [](RootFinding* f) { f->roots[0].ended = f->roots[0].cancelled = true; }, RANK_DEAD),
              35, 1);
  EXPECT_EQ(last_.rule, "cancelled");
}

TEST_F(DetectorTest, IfNoRankWaitsForADeadRankNothingHangs) {
  Warm();
  began_ = now_;
  detector_.Ended(now_, 8, EndKind::kKilled);
  EXPECT_EQ(HungAfter(
                60,
                [](RootFinding* f) {
                  f->roots[0].ended = true;
                  f->waited_ns = 0;
                },
                RANK_DEAD),
            -1);
}

TEST_F(DetectorTest, AStoppedRootOrADisagreementIsHungAtTheLimit) {
  Warm();
  Stall();
  EXPECT_NEAR(HungAfter(60, [](RootFinding* f) { f->roots[0].stopped = true; }), 5, 0.6);
  Beat(102, 102);
  Pass(5 * kSecond);
  Detector fresh{DetectorLimits{}};
  RootFinding finding = Finding(MISMATCH_COUNT);
  finding.comms.clear();
  finding.still_ns = finding.waited_ns = 4900 * kMs;
  EXPECT_FALSE(fresh.Judge(now_, finding).hung());
  finding.still_ns = finding.waited_ns = 5100 * kMs;
  EXPECT_TRUE(fresh.Judge(now_, finding).hung());
}

TEST_F(DetectorTest, ALostHostIsHungAfterTenSeconds) {
  Warm();
  Stall();
  const int64_t lost = now_;
  EXPECT_NEAR(HungAfter(
                  60,
                  [&](RootFinding* f) {
                    f->roots[0].known = false;
                    f->roots[0].silent_ns = now_ - lost;
                  },
                  RANK_NO_DATA),
              10, 0.6);
  EXPECT_EQ(last_.rule, "lost host");
}

TEST_F(DetectorTest, ARankWithoutDataIsHungAfterFiveMinutes) {
  Warm();
  Stall();
  EXPECT_NEAR(HungAfter(
                  400, [](RootFinding* f) { f->roots[0].known = false; }, RANK_NO_DATA),
              300, 1);
}

TEST_F(DetectorTest, InitializationHasAMinuteAndInvisibleLoadersHaveTwenty) {
  Warm();
  Stall();
  EXPECT_NEAR(HungAfter(
                  400, [](RootFinding* f) { f->in_init = f->roots[0].in_recorded_call = true; }, INIT_INCOMPLETE),
              60.2, 0.6);
  Detector fresh{DetectorLimits{}};
  RootFinding finding = Finding(INIT_INCOMPLETE);
  finding.in_init = true;
  finding.comms.clear();
  finding.roots[0].known = false;
  finding.still_ns = finding.waited_ns = 1100 * kSecond;
  EXPECT_FALSE(fresh.Judge(now_, finding).hung());
  finding.still_ns = finding.waited_ns = 1201 * kSecond;
  EXPECT_TRUE(fresh.Judge(now_, finding).hung());
}

// No gaps have been learned yet. `rest` is how long all ranks have been idle.
struct FirstStep {
  const char* name;
  void (*change)(RootFinding* finding, int64_t rest);
  double seconds;
};
class FirstStepTest : public DetectorTest, public ::testing::WithParamInterface<FirstStep> {};

TEST_P(FirstStepTest, TheActivityOfAllRanksDecides) {
  Beat(1, 1);
  Pass(kSecond);
  began_ = now_;
  LateInput report;
  report.comm = kComm;
  report.host = "a";
  detector_.Late(now_, report);
  EXPECT_NEAR(HungAfter(100,
                        [&](RootFinding* finding) {
                          GetParam().change(finding, std::max<int64_t>(0, now_ - began_ - 2 * kSecond));
                        }),
              GetParam().seconds, 0.6);
}
INSTANTIATE_TEST_SUITE_P(
    All, FirstStepTest,
    ::testing::Values(
        FirstStep{"AllAtRest", [](RootFinding* f, int64_t rest) { f->rest_ns = f->roots[0].idle_ns = rest; }, 12},
        FirstStep{"AnotherMayBeAtWork", [](RootFinding* f, int64_t rest) { f->roots[0].idle_ns = rest; }, 60.2},
        FirstStep{"TheOtherEndMayBeAtWork",
                  [](RootFinding* f, int64_t rest) {
                    f->rest_ns = f->roots[0].idle_ns = rest;
                    f->roots[0].on_socket = true;
                  },
                  60.2},
        FirstStep{"NoRootIsFound",
                  [](RootFinding* f, int64_t) {
                    f->kind = FINDING_UNSPECIFIED;
                    f->rest_ns = INT64_MAX;
                  },
                  -1},
        FirstStep{"NoRootIsFoundAndAllWaitBehindOperations",
                  [](RootFinding* f, int64_t rest) {
                    f->kind = FINDING_UNSPECIFIED;
                    f->rest_ns = INT64_MAX;
                    f->blocked_ns = rest + 2 * kSecond;
                  },
                  12},
        FirstStep{"NoRootIsFoundAndAGraphWasLaunched",
                  [](RootFinding* f, int64_t rest) {
                    f->kind = FINDING_UNSPECIFIED;
                    f->rest_ns = INT64_MAX;
                    f->blocked_ns = rest + 2 * kSecond;
                    f->graphs = true;
                  },
                  60},
        FirstStep{"AGpu",
                  [](RootFinding* f, int64_t rest) {
                    f->kind = GPU_STALL;
                    f->rest_ns = rest;
                  },
                  12}),
    [](const auto& step) { return std::string(step.param.name); });

struct EndInWait {
  const char* name;
  int32_t rank;
  EndKind kind;
  bool works;
  bool follows;
};
class EndInWaitTest : public DetectorTest, public ::testing::WithParamInterface<EndInWait> {};

TEST_P(EndInWaitTest, FollowsAWaitPastItsLimitIfTheRootDoesNothing) {
  Warm();
  Stall();
  Pass(6 * kSecond);
  RootFinding finding = Finding();
  finding.roots[0].idle_ns = GetParam().works ? -1 : kSecond;
  finding.roots[0].cpu_ns = GetParam().works ? kSecond : 0;
  EXPECT_FALSE(detector_.Judge(now_, finding).hung());
  detector_.Ended(now_, GetParam().rank, GetParam().kind);
  EXPECT_EQ(detector_.ends_follow_ns() != 0, GetParam().follows);
  EXPECT_EQ(detector_.urgent(), GetParam().follows);
  if (!GetParam().follows) return;
  EXPECT_LT(detector_.ends_follow_ns(), now_);
  // All ranks exited at the same time, and there is a root, so the detector does not wait.
  finding = Finding();
  finding.roots[0].ended = true;
  finding.waited_ns = 0;
  EXPECT_TRUE(detector_.Judge(now_, finding).hung());
  EXPECT_FALSE(detector_.urgent());
}
INSTANTIATE_TEST_SUITE_P(All, EndInWaitTest,
                         ::testing::Values(EndInWait{"AWaiterIsKilled", 3, EndKind::kKilled, false, true},
                                           EndInWait{"AWaitersWatchdogGivesUp", 3, EndKind::kGaveUp, false, true},
                                           EndInWait{"TheRootIsKilledWithTheOthers", 8, EndKind::kKilled, false, true},
                                           EndInWait{"TheRootGivesUpItself", 8, EndKind::kGaveUp, false, false},
                                           EndInWait{"AWaiterCrashes", 3, EndKind::kCrashed, false, false},
                                           EndInWait{"TheRootIsAtWork", 3, EndKind::kKilled, true, false}),
                         [](const auto& end) { return std::string(end.param.name); });

TEST_F(DetectorTest, AnOperationIsGivenTimeForItsBytes) {
  Warm();
  Stall();
  EXPECT_NEAR(HungAfter(
                  60, [](RootFinding* f) { f->bytes = 2'000'000'000; }, COLLECTIVE_STUCK),
              40, 0.6);
}

TEST_F(DetectorTest, NetworkStepsThatAdvanceDelayTheVerdict) {
  Warm();
  Stall();
  EXPECT_EQ(HungAfter(
                600, [](RootFinding* f) { f->network_age_ns = kSecond; }, COLLECTIVE_STUCK),
            -1);
  EXPECT_NEAR(HungAfter(
                  700, [](RootFinding*) {}, COLLECTIVE_STUCK),
              600, 1);
}

TEST_F(DetectorTest, AFirstOperationIsGivenTwoMinutes) {
  Beat(0, 0);
  Pass(2 * kSecond);
  began_ = now_;
  Beat(1, 1);
  Pass(2 * kSecond);
  LateInput report;
  report.comm = kComm;
  report.in_flight_ns = 2 * kSecond;
  report.host = "a";
  detector_.Late(now_, report);
  EXPECT_NEAR(HungAfter(
                  300, [](RootFinding* f) { f->first_operation = true; }, COLLECTIVE_STUCK),
              120.2, 0.7);
}

TEST_F(DetectorTest, TheFrameworksWatchdogLimitIsTheLatestLimit) {
  DetectorLimits limits;
  limits.watchdog = 100 * kSecond;
  Detector detector(limits);
  RootFinding busy = Finding();
  busy.roots[0].cpu_ns = kSecond;
  busy.comms.clear();
  busy.still_ns = busy.waited_ns = 99 * kSecond;
  EXPECT_FALSE(detector.Judge(now_, busy).hung());
  busy.still_ns = busy.waited_ns = 100 * kSecond;
  EXPECT_TRUE(detector.Judge(now_, busy).hung());
}

TEST_F(DetectorTest, ProgressOfInvolvedRanksDelaysTheVerdict) {
  Warm();
  Stall();
  Pass(20 * kSecond);
  Beat(102, 100);
  Pass(2 * kSecond);
  EXPECT_FALSE(detector_.Judge(now_, Finding(GPU_STALL)).hung());
}

TEST_F(DetectorTest, TimeBeforeARebaseDoesNotCount) {
  Warm();
  Stall();
  now_ += 3600 * kSecond;
  detector_.Rebase(now_);
  Pass(kSecond);
  EXPECT_FALSE(detector_.Suspicious(now_));
  EXPECT_FALSE(detector_.Judge(now_, Finding(GPU_STALL)).hung());
}

TEST_F(DetectorTest, AfterARecoveryTheNextHangIsGivenTwiceAsLong) {
  Warm();
  Stall();
  ASSERT_NEAR(HungAfter(60, [](RootFinding*) {}), 10, 0.6);
  Pass(10 * kSecond);
  Beat(102, 102);
  Pass(500 * kMs);
  Beat(103, 103);
  std::vector<Decision> recovered = Pass(500 * kMs);
  Beat(104, 104);
  for (Decision& decision : Pass(2 * kSecond)) recovered.push_back(decision);
  ASSERT_EQ(recovered.size(), 1u);
  EXPECT_EQ(recovered[0].level, Level::kRecovered);
  EXPECT_NEAR(static_cast<double>(recovered[0].age_ns) / 1e9, 20, 1.5);
  EXPECT_EQ(detector_.level(), Level::kMoving);
  began_ = now_;
  Beat(105, 104);
  EXPECT_NEAR(HungAfter(100, [](RootFinding*) {}), 40, 3);
}

// All members aborted the communicator that hung, and created another one in the same processes.
TEST_F(DetectorTest, RanksThatContinueInNewCommunicatorsHaveRestarted) {
  Warm();
  Stall();
  ASSERT_GT(HungAfter(60, [](RootFinding*) {}), 0);
  CommBeat beat;
  beat.comm = kComm;
  beat.gone = true;
  for (uint32_t host = 0; host < 2; ++host) detector_.progress().Apply(host, now_, beat);
  Pass(5 * kSecond);
  EXPECT_EQ(detector_.level(), Level::kHung) << "a destroyed communicator must not be created again";
  const auto made_anew = [&](uint64_t comm, std::vector<int32_t> members, uint64_t issued) {
    CommBeat fresh;
    fresh.comm = comm;
    fresh.size = static_cast<int32_t>(members.size());
    fresh.issued_min = fresh.issued_max = fresh.total_max = issued;
    fresh.members = Ranks::Of(std::move(members));
    detector_.progress().Apply(0, now_, fresh);
  };
  for (int step = 0; step < 5; ++step) {
    made_anew(77, {20, 21}, static_cast<uint64_t>(step) + 1);  // communicators of other ranks
    made_anew(kComm + 1, {0, 8}, 0);                           // created but not used
    EXPECT_TRUE(Pass(kSecond).empty());
  }
  EXPECT_EQ(detector_.level(), Level::kHung);
  std::vector<Decision> decisions;
  for (int step = 0; step < 3; ++step) {
    made_anew(kComm + 1, {0, 8}, static_cast<uint64_t>(step) + 1);
    for (Decision& decision : Pass(kSecond)) decisions.push_back(decision);
  }
  ASSERT_EQ(decisions.size(), 1u);
  EXPECT_EQ(decisions[0].level, Level::kRecovered);
  EXPECT_EQ(decisions[0].rule, "restart");
  EXPECT_EQ(detector_.level(), Level::kMoving);
  // The next hang is judged like the first one and gets no extra time, because no wait ended by itself.
  Beat(100, 100);
  detector_.Tick(now_);
  Pass(kSecond);
  Stall();
  EXPECT_NEAR(HungAfter(60, [](RootFinding*) {}), 10, 1.1);
}

TEST_F(DetectorTest, ProcessesThatEndAreNotARecovery) {
  Warm();
  Stall();
  ASSERT_GT(HungAfter(60, [](RootFinding*) {}), 0);
  detector_.Ended(now_, 3, EndKind::kKilled);
  Beat(102, 102);
  Pass(kSecond);
  Beat(103, 103);
  EXPECT_TRUE(Pass(3 * kSecond).empty());
  EXPECT_EQ(detector_.level(), Level::kHung);
}

TEST_F(DetectorTest, DigestsAreRequestedOnceAndThenSamplesOfTheRoots) {
  Warm();
  Stall();
  Pass(5200 * kMs);
  ASSERT_TRUE(detector_.Wanted(now_).digests);
  detector_.Judge(now_, Finding());
  EXPECT_FALSE(detector_.Wanted(now_).digests);
  EXPECT_TRUE(detector_.Wanted(now_).samples.empty());
  Pass(kSecond);
  EXPECT_FALSE(detector_.Wanted(now_).digests);
  EXPECT_THAT(detector_.Wanted(now_).samples, ElementsAre(8));
  detector_.Ended(now_, 3, EndKind::kKilled);
  EXPECT_TRUE(detector_.Wanted(now_).digests) << "the finding may be out of date";
}

}  // namespace
}  // namespace lockstep
