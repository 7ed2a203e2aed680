// Tests digests and samples that arrive late, out of order, or not at all. Decisions must be based on known data and be
// made in time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "analyzer/testing/job.h"
#include "analyzer/util/time_units.h"
#include "collector/service/core/core.h"
#include "collector/testing/fleet.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using testing::Fleet;
using testing::FleetAgent;
using ::testing::HasSubstr;
using testing::HostFault;

constexpr int kCulprit = 5;

// Returns whether this is the first request to all ranks.
bool IsFull(const CollectRequest& request) {
  return request.phase() == CollectRequest::DIGEST && request.ranks().first().empty();
}

class LateAnswers : public support::FolderTest {
 protected:
  std::unique_ptr<Fleet> Stalled(int per_host) {
    testing::Job job(2, 2, 2, 4);
    job.ranks[kCulprit].host_fault = HostFault::kStall;
    job.ranks[kCulprit].host_fault_at = job.Find(kCulprit, "dp", 2);
    auto fleet = std::make_unique<Fleet>(job.Run(), per_host, folder_);
    fleet->Start();
    fleet->Pass(60 * kSecond);
    fleet->stop_ns = fleet->now;
    return fleet;
  }
  static FleetAgent& AgentOf(Fleet* fleet, int rank) {
    for (FleetAgent& agent : fleet->agents) {
      if (std::find(agent.ranks.begin(), agent.ranks.end(), rank) != agent.ranks.end()) return agent;
    }
    ADD_FAILURE();
    return fleet->agents[0];
  }
  static const Decision* Hung(const Fleet& fleet) {
    for (const Decision& decision : fleet.decisions) {
      if (decision.hung()) return &decision;
    }
    return nullptr;
  }
  static std::string Log(const Fleet& fleet) { return ::testing::PrintToString(fleet.said); }
  static int FullRequests(const FleetAgent& agent) {
    return static_cast<int>(std::count_if(agent.requests.begin(), agent.requests.end(), IsFull));
  }
  std::string Content(const std::string& file) const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      std::ifstream in(absl::StrCat(entry.path().string(), "/", file));
      if (!in) continue;
      std::stringstream text;
      text << in.rdbuf();
      return text.str();
    }
    return "";
  }
};

// Under load, no host answers within two seconds. This must not cause an analysis without data and a repeated round.
TEST_F(LateAnswers, ARoundWaitsForItsFirstAnswer) {
  const auto fleet = Stalled(2);
  for (FleetAgent& agent : fleet->agents) {
    agent.digest_delay = [](const CollectRequest&) { return 3500 * kMs; };
  }
  ASSERT_TRUE(fleet->PassUntil(30 * kSecond, [&] { return fleet->Heard("digests of "); })) << Log(*fleet);
  EXPECT_TRUE(fleet->Heard("digests of 8 of 8 ranks in 3.5 s")) << Log(*fleet);
  for (const FleetAgent& agent : fleet->agents) EXPECT_EQ(agent.requests.size(), 1u);
  ASSERT_TRUE(fleet->PassUntil(30 * kSecond, [&] { return Hung(*fleet) != nullptr; })) << Log(*fleet);
  EXPECT_THAT(Hung(*fleet)->roots, ::testing::ElementsAre(kCulprit));
  EXPECT_LE(Hung(*fleet)->at_ns - fleet->stop_ns, Hung(*fleet)->limit_ns + 3 * 3500 * kMs);
}

// A round without any answer also ends, and is not repeated soon.
TEST_F(LateAnswers, ARoundWithoutAnyAnswerEnds) {
  const auto fleet = Stalled(2);
  for (FleetAgent& agent : fleet->agents) agent.answers_digests = false;
  fleet->Pass(60 * kSecond);
  EXPECT_TRUE(fleet->Heard("digests of 0 of ")) << Log(*fleet);
  EXPECT_EQ(Hung(*fleet), nullptr);
  EXPECT_LE(FullRequests(fleet->agents[0]), 4);
}

// In most hangs, a rank that waits, or that others wait for, is a victim.
TEST_F(LateAnswers, NoRankIsNamedBeforeTheCauseIsKnown) {
  const auto fleet = Stalled(2);
  const int64_t silent_until = fleet->now + 15 * kSecond;
  AgentOf(fleet.get(), kCulprit).digest_delay = [&](const CollectRequest&) {
    return fleet->now < silent_until ? -1 : 0;
  };
  ASSERT_TRUE(fleet->PassUntil(60 * kSecond, [&] { return Hung(*fleet) != nullptr; })) << Log(*fleet);
  EXPECT_TRUE(fleet->Heard("; looking for the cause")) << Log(*fleet);
  EXPECT_TRUE(fleet->Heard(": the cause is not known yet")) << Log(*fleet);
  EXPECT_TRUE(fleet->Heard(absl::StrCat(": rank ", kCulprit, " "))) << Log(*fleet);
  static const std::regex kNamed("\\branks? ([0-9]+)");
  for (const std::string& line : fleet->said) {
    if (std::smatch named; std::regex_search(line, named, kNamed)) {
      EXPECT_EQ(named[1], std::to_string(kCulprit)) << line;
    }
  }
}

class Steady : public LateAnswers, public ::testing::WithParamInterface<int> {};

// The culprit's agent answers everything with the same delay. The others answer at once.
TEST_P(Steady, TheAnswersOfASlowAgentAreUsed) {
  const int64_t delay = GetParam() * kMs;
  const auto fleet = Stalled(2);
  AgentOf(fleet.get(), kCulprit).digest_delay = [delay](const CollectRequest&) { return delay; };
  ASSERT_TRUE(fleet->PassUntil(90 * kSecond, [&] { return Hung(*fleet) != nullptr; })) << Log(*fleet);
  const Decision& hung = *Hung(*fleet);
  EXPECT_THAT(hung.roots, ::testing::ElementsAre(kCulprit));
  EXPECT_EQ(hung.rule, "host stall");
  EXPECT_GE(hung.at_ns - fleet->stop_ns, hung.limit_ns);
  // With a delay above three seconds, a round must be repeated, because the first round did not wait for this agent.
  const int64_t more = delay <= 3 * kSecond ? 5 * kSecond : 4 * delay;
  EXPECT_LE(hung.at_ns - fleet->stop_ns, hung.limit_ns + more) << Log(*fleet);
  // The digests contain all the evidence, although few hosts were sampled last.
  ASSERT_TRUE(fleet->PassUntil(10 * kSecond, [&] { return !fleet->verdicts.empty(); }));
  EXPECT_THAT(Content("manifest.json"), HasSubstr("\"missing\": []"));
}
INSTANTIATE_TEST_SUITE_P(Delays, Steady, ::testing::Values(0, 300, 1500, 3000, 6000, 9000));

TEST_F(LateAnswers, AWorkingRankIsNeverHungHoweverLateItsAnswers) {
  for (const int64_t delay : {300 * kMs, 3 * kSecond, 7 * kSecond}) {
    const auto fleet = Stalled(2);
    fleet->amend = [](int32_t rank, RankDigest* digest) {
      if (rank == kCulprit) digest->mutable_rank()->mutable_process()->set_cpu_ns_between_samples(900 * kMs);
    };
    AgentOf(fleet.get(), kCulprit).digest_delay = [delay](const CollectRequest&) { return delay; };
    fleet->Pass(120 * kSecond);
    EXPECT_EQ(Hung(*fleet), nullptr) << delay << Log(*fleet);
    EXPECT_GE(FullRequests(fleet->agents[0]), 2);
    EXPECT_LE(FullRequests(fleet->agents[0]), 10) << delay;
  }
}

// The rank was idle and then worked. Older samples arrive after newer ones.
TEST_F(LateAnswers, TheNewestSampleCountsInWhateverOrderTheyArrive) {
  const auto fleet = Stalled(2);
  const int64_t works_from = fleet->stop_ns + 8900 * kMs, arrive = fleet->stop_ns + 10'050 * kMs;
  fleet->amend = [&](int32_t rank, RankDigest* digest) {
    if (rank != kCulprit || fleet->now < works_from) return;
    digest->mutable_rank()->mutable_process()->set_cpu_ns_between_samples(900 * kMs);
  };
  // An older answer arrives right after one that shows the process at work.
  int old = 0, fresh = 0;
  AgentOf(fleet.get(), kCulprit).digest_delay = [&](const CollectRequest& request) {
    if (IsFull(request) || fleet->now >= arrive) return 100 * kMs;
    ++(fleet->now < works_from ? old : fresh);
    return arrive - fleet->now + (fleet->now < works_from ? kMs : 0);
  };
  fleet->Pass(60 * kSecond);
  EXPECT_GE(old, 1);
  EXPECT_GE(fresh, 1);
  EXPECT_EQ(Hung(*fleet), nullptr) << Log(*fleet);
  size_t since = 0;
  for (const Decision& decision : fleet->decisions) {
    if (decision.roots.empty() || decision.at_ns < arrive) continue;
    ++since;
    EXPECT_EQ(decision.cpu_ns, 900 * kMs) << static_cast<double>(decision.at_ns - works_from) / kSecond;
  }
  EXPECT_GE(since, 10u);
}

// The first request to a host, or its answer, is lost.
TEST_F(LateAnswers, AMissingAgentIsAskedOnceMore) {
  const auto fleet = Stalled(2);
  FleetAgent& agent = AgentOf(fleet.get(), kCulprit);
  agent.digest_delay = [](const CollectRequest& request) { return IsFull(request) ? -1 : 0; };
  ASSERT_TRUE(fleet->PassUntil(30 * kSecond, [&] { return Hung(*fleet) != nullptr; })) << Log(*fleet);
  EXPECT_TRUE(fleet->Heard("digests of 8 of 8 ranks in 2.1 s")) << Log(*fleet);
  EXPECT_EQ(FullRequests(agent), 1);
  ASSERT_GE(agent.requests.size(), 2u);
  EXPECT_EQ(Ranks::FromOrNone(agent.requests[1].ranks()), Ranks::Of(agent.ranks));
  for (const FleetAgent& other : fleet->agents) {
    if (&other == &agent) continue;
    for (const CollectRequest& request : other.requests)
      EXPECT_TRUE(IsFull(request) || request.phase() != CollectRequest::DIGEST);
  }
}

// One part of an answer is lost, or all parts are late. No rank may be missing, and none may count twice.
TEST_F(LateAnswers, PartsThatArriveTwiceAreOneAnswer) {
  for (const bool lost : {true, false}) {
    const auto fleet = Stalled(4);
    FleetAgent& agent = AgentOf(fleet.get(), kCulprit);
    agent.digests_in_parts = true;
    int sent = 0;
    agent.digest_delay = [&](const CollectRequest& request) -> int64_t {
      const int part = sent++;
      if (!IsFull(request)) return 300 * kMs;
      if (part == 1) return lost ? -1 : 2200 * kMs;
      return part == 2 ? 2400 * kMs : 0;
    };
    ASSERT_TRUE(fleet->PassUntil(30 * kSecond, [&] { return Hung(*fleet) != nullptr; })) << Log(*fleet);
    EXPECT_TRUE(fleet->Heard("digests of 8 of 8 ranks")) << Log(*fleet);
    EXPECT_EQ(FullRequests(agent), 1);
    ASSERT_TRUE(fleet->PassUntil(60 * kSecond, [&] { return !fleet->printed.empty(); }));
    EXPECT_THAT(fleet->printed[0], ::testing::Not(HasSubstr("twice")));
    EXPECT_THAT(fleet->printed[0], ::testing::Not(HasSubstr("reported by")));
    EXPECT_THAT(Content("manifest.json"), HasSubstr("\"missing\": []"));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
}

TEST_F(LateAnswers, UselessAnswersAreCounted) {
  const auto fleet = Stalled(2);
  FleetAgent& slow = fleet->agents[0];
  slow.digest_delay = [](const CollectRequest&) { return 12 * kSecond; };
  ASSERT_TRUE(fleet->PassUntil(60 * kSecond, [&] { return Hung(*fleet) != nullptr; })) << Log(*fleet);
  fleet->Pass(20 * kSecond);
  EXPECT_GE(fleet->core->counters().digests_late, 1u);
  EXPECT_EQ(fleet->verdicts.size(), 1u);
}

}  // namespace
}  // namespace lockstep
