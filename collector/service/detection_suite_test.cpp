// Labeled cases with 8 and with several hundred ranks: cases that must never be declared hung with default settings,
// and cases that must always be found. All deciding code is production code; see detection_job.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "collector/detect/decision_log.h"
#include "collector/testing/detection_job.h"

namespace lockstep::testing {
namespace {

JobPlan Plan(int ranks) {
  JobPlan plan;
  plan.ranks = ranks;
  plan.ranks_a_host = ranks >= 64 ? 8 : 4;
  return plan;
}

std::string Log(const WatchedJob& job) {
  std::string log;
  for (const Decision& decision : job.decisions()) log += DecisionJson(decision, "sim", decision.at_ns) + "\n";
  return log;
}

struct Case {
  const char* name;
  std::function<void(JobPlan*)> change;
  int64_t run_ns = 2 * kMinute;
  int64_t steps = 1;      // quiet cases: number of steps for the case to be valid
  bool late = true;       // quiet cases: long enough to be late
  const char* rule = "";  // rule of the decision
  int64_t limit_ns = 0;   // the limit that the decision must use
  int culprit = -1;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class DetectionSuite : public ::testing::TestWithParam<std::tuple<Case, int>> {};
class Quiet : public DetectionSuite {};
class True : public DetectionSuite {};

std::string Name(const ::testing::TestParamInfo<std::tuple<Case, int>>& info) {
  return std::string(std::get<0>(info.param).name) + "_" + std::to_string(std::get<1>(info.param)) + "Ranks";
}

TEST_P(Quiet, IsAtMostLate) {
  const auto& [c, ranks] = GetParam();
  JobPlan plan = Plan(ranks);
  c.change(&plan);
  WatchedJob job(plan);
  job.Run(c.run_ns);
  EXPECT_EQ(job.hung(), nullptr) << Log(job);
  EXPECT_GE(job.steps(), c.steps);
  EXPECT_EQ(!job.decisions().empty(), c.late) << Log(job);
  for (const Decision& decision : job.decisions()) {
    if (decision.level == Level::kLate) {
      EXPECT_GE(decision.age_ns, decision.limit_ns - 200 * kMs);
    }
  }
}

TEST_P(True, IsFoundWithinASecondOfItsLimit) {
  const auto& [c, ranks] = GetParam();
  JobPlan plan = Plan(ranks);
  c.change(&plan);
  WatchedJob job(plan);
  job.Run(c.run_ns);
  ASSERT_NE(job.hung(), nullptr) << Log(job);
  const Decision& hung = *job.hung();
  EXPECT_EQ(hung.rule, c.rule) << Log(job);
  if (c.limit_ns > 0) {
    EXPECT_EQ(hung.limit_ns, c.limit_ns) << Log(job);
  }
  if (c.culprit >= 0) {
    EXPECT_THAT(hung.roots, ::testing::ElementsAre(c.culprit)) << Log(job);
  }
  // Counts from the last moment at which any rank moved.
  EXPECT_LE(hung.at_ns - job.last_progress(), hung.limit_ns + kSecond) << Log(job);
  EXPECT_GE(hung.at_ns - job.last_progress(), hung.limit_ns - 700 * kMs) << "no earlier than the limit\n" << Log(job);
  // Every communicator became late within a second of its learned limit.
  for (const Decision& decision : job.decisions()) {
    if (decision.level == Level::kLate) {
      EXPECT_LE(decision.age_ns, decision.limit_ns + kSecond);
    }
  }
}

void Add(JobPlan* plan, int rank, int64_t step, Doing doing, int64_t for_ns) {
  plan->pauses.push_back({rank, step, doing, for_ns});
}

const Case kQuiet[] = {
    {"FirstOperation",
     [](JobPlan* p) {
       p->slow.push_back({0, 2, 100 * kSecond, 1000, -1});
     },
     3 * kMinute},
    {"WarmUp",
     [](JobPlan* p) {
       for (int64_t step = 0; step < 3; ++step) {
         Add(p, 1, step, Doing::kCompute, 45 * kSecond);
         p->slow.push_back({step, 1, 4 * kSecond, 1000, -1});
       }
     },
     4 * kMinute, 10},
    {"LoadsItsModelBeforeItsSecondCommunicator", [](JobPlan* p) { Add(p, 2, -1, Doing::kIo, 15 * kMinute); },
     17 * kMinute, 10},
    {"FirstCheckpointWithIO", [](JobPlan* p) { Add(p, 0, 20, Doing::kIo, 180 * kSecond); }, 5 * kMinute, 100},
    {"FirstCheckpointOfEveryRankWithIO",
     [](JobPlan* p) {
       for (int rank = 0; rank < p->ranks; ++rank) Add(p, rank, 20, Doing::kIo, (100 + rank * 80 / p->ranks) * kSecond);
     },
     5 * kMinute, 100},
    {"CheckpointInBursts", [](JobPlan* p) { Add(p, 0, 20, Doing::kIoBursts, 180 * kSecond); }, 5 * kMinute, 100},
    {"Evaluation", [](JobPlan* p) { Add(p, 0, 60, Doing::kCompute, 10 * kMinute); }, 12 * kMinute, 100},
    {"EvaluationOnTheGpu", [](JobPlan* p) { Add(p, 0, 60, Doing::kGpu, 10 * kMinute); }, 12 * kMinute, 100},
    {"Recompilation", [](JobPlan* p) { Add(p, 3, 60, Doing::kCompute, 4 * kMinute); }, 6 * kMinute, 100},
    {"TwoGigabytesUnderWhatTheyNeed",
     [](JobPlan* p) {
       p->slow.push_back({60, 2, 38 * kSecond, 500'000'000, -1});
     },
     3 * kMinute, 100},
    {"IdleCommunicators",
     [](JobPlan* p) {
       for (int rank = 0; rank < p->ranks; ++rank) Add(p, rank, 20, Doing::kServe, 20 * kMinute);
     },
     21 * kMinute, 25, false},
    {"FollowersWaitForAServerWithoutRequests", [](JobPlan* p) { Add(p, 0, 20, Doing::kServe, 20 * kMinute); },
     21 * kMinute, 25},
    {"GraphReplays",
     [](JobPlan* p) {
       p->operations_a_launch = 1000;
       p->launch_ns = 9 * kSecond;
     },
     10 * kMinute, 50},
    {"StorageHiccup", [](JobPlan* p) { Add(p, 2, 60, Doing::kTrickle, kMinute); }, 3 * kMinute, 100},
    {"FileServerFailsOver", [](JobPlan* p) { Add(p, 2, 60, Doing::kDisk, 25 * kSecond); }, 3 * kMinute, 100},
    {"WithoutMarks",
     [](JobPlan* p) {
       p->marks = false;
       Add(p, 0, 60, Doing::kCompute, 3 * kMinute);
     },
     5 * kMinute, 100},
    {"EvaluationOnTheGpuWithoutMarks",
     [](JobPlan* p) {
       p->marks = false;
       Add(p, 0, 60, Doing::kGpu, 90 * kSecond);
     },
     5 * kMinute, 100},
    {"TwoGigabytesWithoutMarks",
     [](JobPlan* p) {
       p->marks = false;
       p->slow.push_back({60, 2, 38 * kSecond, 500'000'000, -1});
     },
     3 * kMinute, 100},
    {"TwoGigabytesInTheFirstStepWithoutMarks",
     [](JobPlan* p) {
       p->marks = false;
       p->slow.push_back({0, 2, 38 * kSecond, 500'000'000, -1});
     },
     3 * kMinute, 100},
    {"ALongFirstLaunchOfAGraphWithoutMarks",
     [](JobPlan* p) {
       p->marks = false;
       p->operations_a_launch = 1000;
       p->slow.push_back({0, 2, 45 * kSecond, 1000, -1});
     },
     3 * kMinute, 100},
    {"CompilationWithoutMarks",
     [](JobPlan* p) {
       p->marks = false;
       for (int64_t step = 0; step < 3; ++step) Add(p, 1, step, Doing::kCompute, 45 * kSecond);
     },
     4 * kMinute, 10},
};

const Case kTrue[] = {
    {"Death", [](JobPlan* p) { Add(p, 5, 40, Doing::kDead, kEver); }, 3 * kMinute, 0, true, "dead", kSecond, 5},
    {"Sigstop", [](JobPlan* p) { Add(p, 5, 40, Doing::kStopped, kEver); }, 3 * kMinute, 0, true, "stopped", 5 * kSecond,
     5},
    {"DState", [](JobPlan* p) { Add(p, 5, 40, Doing::kDisk, kEver); }, 3 * kMinute, 0, true, "storage stall",
     30 * kSecond, 5},
    {"LostHost",
     [](JobPlan* p) {
       p->lost_host = 1;
       p->lost_ns = 40 * kSecond;
     },
     3 * kMinute, 0, true, "lost host", 10 * kSecond, -1},
    {"InitThatNeverCompletes", [](JobPlan* p) { Add(p, 5, -1, Doing::kSleep, kEver); }, 5 * kMinute, 0, true,
     "host stall", 0, 5},
    {"AWaitOutsideNccl", [](JobPlan* p) { Add(p, 5, 40, Doing::kSleep, kEver); }, 3 * kMinute, 0, true, "host stall",
     9 * kSecond, 5},
    {"AWaitInTheFirstStep", [](JobPlan* p) { Add(p, 5, 0, Doing::kSleep, kEver); }, 3 * kMinute, 0, true, "host stall",
     12 * kSecond, 5},
    {"AGpuThatStandsStillInTheFirstStep",
     [](JobPlan* p) {
       p->slow.push_back({0, 2, kEver, 1000, 5});
     },
     3 * kMinute, 0, true, "gpu stall", 12 * kSecond, 5},
    {"AWaitOutsideNcclWithoutMarks",
     [](JobPlan* p) {
       p->marks = false;
       Add(p, 5, 40, Doing::kSleep, kEver);
     },
     3 * kMinute, 0, true, "host stall", 9 * kSecond, 5},
    {"AGpuThatStandsStill",
     [](JobPlan* p) {
       p->slow.push_back({40, 2, kEver, 1000, 5});
     },
     3 * kMinute, 0, true, "gpu stall", 10 * kSecond, 5},
    {"AGpuThatStandsStillWithoutMarks",
     [](JobPlan* p) {
       p->marks = false;
       p->slow.push_back({40, 2, kEver, 1000, 5});
     },
     3 * kMinute, 0, true, "gpu stall", 10 * kSecond, -1},
    {"AGpuThatStandsStillInTheFirstStepWithoutMarks",
     [](JobPlan* p) {
       p->marks = false;
       p->slow.push_back({0, 2, kEver, 1000, 5});
     },
     3 * kMinute, 0, true, "gpu stall", 12 * kSecond, -1},
    {"TheSameCheckpointWithoutIO", [](JobPlan* p) { Add(p, 0, 20, Doing::kSleep, 180 * kSecond); }, 5 * kMinute, 0,
     true, "host stall", 9 * kSecond, 0},
    {"ACheckpointThatStopsHalfway",
     [](JobPlan* p) {
       p->more = [](int rank, int64_t step, int64_t, std::mt19937_64*) -> std::optional<Pause> {
         if (rank != 0 || step != 21) return std::nullopt;
         return Pause{0, 21, Doing::kSleep, kEver};
       };
       Add(p, 0, 20, Doing::kIo, 90 * kSecond);
     },
     5 * kMinute, 0, true, "host stall", 9 * kSecond, 0},
};

INSTANTIATE_TEST_SUITE_P(Suite, Quiet, ::testing::Combine(::testing::ValuesIn(kQuiet), ::testing::Values(8, 256)),
                         Name);
INSTANTIATE_TEST_SUITE_P(Suite, True, ::testing::Combine(::testing::ValuesIn(kTrue), ::testing::Values(8, 256)), Name);

// A day with stragglers, garbage collection, slow storage, checkpoints every half hour and evaluations every four
// hours.
class NoisyDay : public ::testing::TestWithParam<std::tuple<uint64_t, int, int>> {};  // seed, ranks, hours

TEST_P(NoisyDay, IsNeverHung) {
  const auto [seed, ranks_, hours] = GetParam();
  const int ranks = ranks_;
  JobPlan plan = Plan(ranks);
  plan.seed = seed;
  plan.step_ns = 20 * kSecond;
  plan.jitter = 0.1;
  int64_t checkpoint = 0, evaluation = 0;
  int64_t checkpoint_step = -1, evaluation_step = -1;
  plan.more = [&](int rank, int64_t step, int64_t now, std::mt19937_64* random) -> std::optional<Pause> {
    const auto chance = [&](int one_in) { return (*random)() % static_cast<uint64_t>(one_in * ranks / 8) == 0; };
    if (now / (30 * kMinute) > checkpoint) {
      checkpoint = now / (30 * kMinute);
      checkpoint_step = step;
    }
    if (now / (240 * kMinute) > evaluation) {
      evaluation = now / (240 * kMinute);
      evaluation_step = step;
    }
    const auto seconds = [&](int64_t least, int64_t most) {
      return least * kSecond + static_cast<int64_t>((*random)() % static_cast<uint64_t>((most - least) * kSecond));
    };
    if (step == checkpoint_step) return Pause{rank, step, Doing::kIo, seconds(20, 180)};
    if (step == evaluation_step && rank == 0) return Pause{rank, step, Doing::kCompute, 10 * kMinute};
    if (chance(800)) return Pause{rank, step, Doing::kTrickle, kMinute};            // a brief storage failure
    if (chance(2000)) return Pause{rank, step, Doing::kDisk, seconds(5, 25)};       // a file server failover
    if (chance(200)) return Pause{rank, step, Doing::kCompute, seconds(1, 8)};      // garbage collection
    if (chance(300)) return Pause{rank, step, Doing::kSleep, seconds(1, 4)};        // the data loader is behind
    if (chance(1000)) return Pause{rank, step, Doing::kCompute, seconds(60, 240)};  // a recompilation
    return std::nullopt;
  };
  WatchedJob job(plan);
  job.Run(hours * 60 * kMinute);
  EXPECT_EQ(job.hung(), nullptr) << Log(job);
  EXPECT_GE(job.now(), hours * 60 * kMinute);
  EXPECT_GT(job.steps(), hours * 60);
}
INSTANTIATE_TEST_SUITE_P(Suite, NoisyDay,
                         ::testing::Values(std::tuple(uint64_t{1}, 8, 24), std::tuple(uint64_t{2}, 8, 24),
                                           std::tuple(uint64_t{3}, 8, 24), std::tuple(uint64_t{4}, 64, 4)));

}  // namespace
}  // namespace lockstep::testing
