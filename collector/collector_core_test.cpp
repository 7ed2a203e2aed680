#include "collector/collector_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "analyzer/engine.h"
#include "analyzer/engine_test_job.h"
#include "analyzer/load.h"
#include "analyzer/load_stacks.h"
#include "collector/core_test_fleet.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::Fleet;
using testing::FleetAgent;
using testing::HostFault;
using testing::Job;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kHour = 3600 * kSecond;

Bundle Hung(int tp, int pp, int dp, int culprit, HostFault fault = HostFault::kStall) {
  Job job(tp, pp, dp, 4);
  job.ranks[static_cast<size_t>(culprit)].host_fault = fault;
  job.ranks[static_cast<size_t>(culprit)].host_fault_at = job.Find(culprit, "dp", 2);
  return job.Run();
}

class CollectorCoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lockstep-core-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    out_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(out_); }
  std::vector<std::string> Incidents() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(out_)) {
      if (entry.is_directory()) found.push_back(entry.path());
    }
    return found;
  }
  static std::string Content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static Verdict Read(const std::string& folder) {
    const absl::StatusOr<Bundle> bundle = LoadPaths({folder});
    EXPECT_TRUE(bundle.ok()) << bundle.status();
    return bundle.ok() ? Analyze(*bundle) : Verdict();
  }
  std::string out_;
};

TEST_F(CollectorCoreTest, AQuietJobIsLeftAloneForAnHour) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(kHour);
  EXPECT_TRUE(fleet.decisions.empty());
  EXPECT_TRUE(Incidents().empty());
  EXPECT_EQ(fleet.core->counters().rounds, 0u);
  EXPECT_EQ(fleet.core->StatusOf("train").state(), "moving");
  EXPECT_EQ(fleet.core->StatusOf("train").ranks(), 8u);
}

TEST_F(CollectorCoreTest, AHangIsNamedFromDigestsAndTheWholeSaysTheSame) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] { return !fleet.printed.empty(); }));
  EXPECT_THAT(fleet.printed[0], HasSubstr("rank 5"));
  ASSERT_EQ(Incidents().size(), 1u);
  EXPECT_EQ(fleet.core->StatusOf("train").state(), "hung");
  // The verdict is on disk before anything else has come.
  ASSERT_TRUE(fleet.PassUntil(60 * kSecond, [&] { return !fleet.core->busy(); }));
  const std::string folder = Incidents()[0];
  for (const char* name : {"verdict.json", "verdict.txt", "report.html", "manifest.json", "node0.lsd", "node3.lsd"}) {
    EXPECT_TRUE(std::filesystem::exists(absl::StrCat(folder, "/", name))) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(folder + "/.gathering.json"));
  EXPECT_THAT(Content(folder + "/manifest.json"), HasSubstr("\"whole\": true"));
  const Verdict verdict = Read(folder);
  EXPECT_EQ(verdict.verdict(), VERDICT_HUNG);
  ASSERT_GE(verdict.findings_size(), 1);
  ASSERT_EQ(verdict.findings(0).culprit_ranks_size(), 1);
  EXPECT_EQ(verdict.findings(0).culprit_ranks(0), 5);
  EXPECT_EQ(verdict.findings(0).culprits(0).host(), "node2");
  ASSERT_EQ(fleet.verdicts.size(), 1u) << "--on-verdict runs once";
  EXPECT_THAT(fleet.verdicts[0], HasSubstr("\"culprit_ranks\""));
  // Every chunk that was acknowledged is in the ledger, once.
  const std::string ledger = Content(folder + "/.ledger");
  size_t acknowledged = 0;
  for (const FleetAgent& agent : fleet.agents) {
    acknowledged += agent.acknowledged.size();
    EXPECT_TRUE(agent.unacknowledged.empty());
    EXPECT_TRUE(agent.refused.empty());
  }
  EXPECT_EQ(static_cast<size_t>(std::count(ledger.begin(), ledger.end(), 'c') > 0), 1u);
  EXPECT_EQ(acknowledged, 12u);
}

TEST_F(CollectorCoreTest, EvidenceIsAskedOfTheCulpritAndFewOthers) {
  Fleet fleet(Hung(2, 2, 4, 5), 2, out_);
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(180 * kSecond, [&] { return !fleet.printed.empty() && !fleet.core->busy(); }));
  std::set<int32_t> asked;
  for (const FleetAgent& agent : fleet.agents) {
    for (const CollectRequest& request : agent.requests) {
      if (request.phase() != CollectRequest::EVIDENCE) continue;
      for (int32_t rank : Ranks::From(request.ranks())->List()) asked.insert(rank);
      EXPECT_FALSE(request.incident().empty());
    }
  }
  EXPECT_TRUE(asked.count(5)) << "the culprit";
  EXPECT_LT(asked.size(), 16u) << "not everybody";
}

// Of more of each class of victims stacks come merged, and lie in stacks.json and the report.
TEST_F(CollectorCoreTest, StacksOfVictimsAreOneTreeInTheIncident) {
  Fleet fleet(Hung(2, 2, 8, 5), 2, out_);
  fleet.options.evidence_ranks = 4;
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(180 * kSecond, [&] { return !fleet.printed.empty() && !fleet.core->busy(); }));
  Ranks merged, named;
  for (const FleetAgent& agent : fleet.agents) {
    for (const CollectRequest& request : agent.requests) {
      if (request.phase() != CollectRequest::EVIDENCE) continue;
      merged.Unite(*Ranks::From(request.merged()));
      named.Unite(*Ranks::From(request.ranks()));
    }
  }
  EXPECT_LE(named.size(), 4u);
  EXPECT_TRUE(named.Contains(5));
  EXPECT_GT(merged.size(), 4u);
  EXPECT_FALSE(merged.Intersects(named));
  const std::string folder = Incidents()[0];
  MergedStacks stacks;
  std::string why;
  ASSERT_TRUE(ReadStacks(folder + "/stacks.json", &stacks, &why)) << why;
  EXPECT_EQ(stacks.ranks.size(), merged.size() + named.size());
  size_t ranks = 0;
  for (const MergedStack& stack : stacks.stacks) {
    ranks += stack.ranks.size();
    EXPECT_THAT(stack.frames, ::testing::ElementsAre("wait", HasSubstr("of_node"), "main"));
  }
  EXPECT_EQ(ranks, stacks.ranks.size());
  EXPECT_THAT(Content(folder + "/report.html"), HasSubstr("of_node2"));
}

TEST_F(CollectorCoreTest, AgentsWithoutMergedStacksHoldTheEvidenceForAMomentOnly) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.sends_stacks = false;
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] { return !fleet.printed.empty(); }));
  const int64_t from = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(60 * kSecond, [&] { return !fleet.core->busy(); }));
  EXPECT_LT(fleet.now - from, 8 * kSecond);
}

// top: stacks taken at this moment, by whom may stop a process.
TEST_F(CollectorCoreTest, FreshStacksAreForOperators) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(30 * kSecond);
  ClientRequest request;
  request.set_kind(ClientRequest::DETAIL);
  request.set_job("train");
  request.set_missing_stacks(true);
  request.set_fresh(true);
  request.set_request(1);
  fleet.Ask(1, wire::Role::kReader, request);
  ASSERT_EQ(fleet.replies.size(), 1u);
  EXPECT_THAT(fleet.replies[0].error(), HasSubstr("reader"));
  fleet.Ask(1, wire::Role::kOperator, request);
  ASSERT_EQ(fleet.replies.size(), 2u);
  EXPECT_THAT(fleet.replies[1].error(), HasSubstr("nobody is waited for"));
  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] { return !fleet.printed.empty(); }));
  fleet.replies.clear();
  fleet.Ask(1, wire::Role::kOperator, request);
  ASSERT_TRUE(fleet.PassUntil(30 * kSecond, [&] { return !fleet.replies.empty() && fleet.replies.back().done(); }));
  std::string text;
  for (const std::string& line : fleet.replies.back().lines()) text += line + "\n";
  EXPECT_THAT(text, HasSubstr("of_node2"));
}

TEST_F(CollectorCoreTest, ADeadRankIsTheCause) {
  Fleet fleet(Hung(2, 2, 2, 3, HostFault::kDie), 4, out_);
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(60 * kSecond, [&] { return !fleet.printed.empty() && !fleet.core->busy(); }));
  const Verdict verdict = Read(Incidents()[0]);
  ASSERT_GE(verdict.findings_size(), 1);
  EXPECT_EQ(verdict.findings(0).kind(), RANK_DEAD);
  EXPECT_THAT(verdict.findings(0).culprit_ranks(), ::testing::ElementsAre(3));
}

TEST_F(CollectorCoreTest, AgentsThatDoNotAnswerDoNotHoldTheVerdictAndAreNamed) {
  Fleet fleet(Hung(2, 2, 2, 5), 1, out_);
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.agents[0].answers_digests = fleet.agents[0].answers_evidence = fleet.agents[0].sends_files = false;
  fleet.agents[5].answers_evidence = fleet.agents[5].sends_files = false;
  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(60 * kSecond, [&] { return !fleet.printed.empty(); }));
  EXPECT_THAT(fleet.printed[0], HasSubstr("node0"));
  ASSERT_TRUE(fleet.PassUntil(600 * kSecond, [&] { return !fleet.core->busy(); }));
  const std::string folder = Incidents()[0];
  EXPECT_THAT(Content(folder + "/manifest.json"), HasSubstr("\"whole\": false"));
  EXPECT_THAT(Content(folder + "/verdict.json"), HasSubstr("node5"));
  const Verdict verdict = Read(folder);
  ASSERT_GE(verdict.findings_size(), 1);
  EXPECT_THAT(verdict.findings(0).culprit_ranks(), ::testing::ElementsAre(5)) << "its digest is there";
  EXPECT_EQ(verdict.ranks_read(), 7);
}

// Killed between making a folder and naming what is first written to it.
TEST_F(CollectorCoreTest, AFolderThatWasOnlyBegunIsRemoved) {
  const std::string begun = out_ + "/lockstep-incident-train-1", other = out_ + "/lockstep-incident-train-2";
  for (const std::string& folder : {begun, other}) {
    ASSERT_TRUE(MakeIncidentFolder(folder).ok());
    std::ofstream(folder + "/.gathering.json.24572.tmp") << "{\"format\": 1";
  }
  std::ofstream(other + "/notes.txt") << "somebody's";
  std::vector<std::string> problems;
  EXPECT_TRUE(FindUnfinished(out_, &problems).empty());
  EXPECT_TRUE(problems.empty());
  EXPECT_FALSE(std::filesystem::exists(begun));
  EXPECT_TRUE(std::filesystem::exists(other + "/notes.txt"));
}

TEST_F(CollectorCoreTest, DigestsInPartsAreOneAnswer) {
  Fleet fleet(Hung(2, 2, 2, 5), 4, out_);
  for (FleetAgent& agent : fleet.agents) agent.digests_in_parts = true;
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] { return !fleet.printed.empty() && !fleet.core->busy(); }));
  EXPECT_EQ(Read(Incidents()[0]).ranks_read(), 8);
}

TEST_F(CollectorCoreTest, ACollectorStartedAnewInTheMiddleOfGatheringGoesOn) {
  Fleet fleet(Hung(2, 2, 2, 5), 1, out_);
  fleet.options.everything_hosts = 3;
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] { return !fleet.printed.empty(); }));
  std::set<std::string> acknowledged;
  for (int life = 0; life < 12; ++life) {
    // Dies whenever another chunk was acknowledged, and once with everything written and no acknowledgement heard.
    fleet.lose_acks = life == 3;
    fleet.PassUntil(30 * kSecond, [&] {
      size_t count = 0;
      for (const FleetAgent& agent : fleet.agents) count += agent.acknowledged.size();
      return count > acknowledged.size();
    });
    for (const FleetAgent& agent : fleet.agents) acknowledged.insert(agent.acknowledged.begin(), agent.acknowledged.end());
    fleet.lose_acks = false;
    fleet.Restart(100 + static_cast<uint64_t>(life));
  }
  ASSERT_TRUE(fleet.PassUntil(1200 * kSecond, [&] { return !fleet.core->busy(); }));
  ASSERT_EQ(Incidents().size(), 1u) << "what was declared before is not declared again";
  const std::string folder = Incidents()[0];
  EXPECT_THAT(Content(folder + "/manifest.json"), HasSubstr("\"whole\": true"));
  const std::string ledger = Content(folder + "/.ledger");
  size_t lines = 0;
  for (size_t at = ledger.find("\nc "); at != std::string::npos; at = ledger.find("\nc ", at + 1)) ++lines;
  size_t have = 0;
  for (const FleetAgent& agent : fleet.agents) {
    have += agent.acknowledged.size();
    EXPECT_TRUE(agent.unacknowledged.empty());
  }
  EXPECT_EQ(have, 24u);
  EXPECT_EQ(lines, 24u) << "each id once";
  EXPECT_THAT(Read(folder).findings(0).culprit_ranks(), ::testing::ElementsAre(5));
}

// Killed in each phase of an incident, again and again: it goes on where it was.
class KilledIn : public CollectorCoreTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(KilledIn, ThePhaseIsTakenUpAndEverythingIsSaidOnce) {
  const std::string phase = GetParam();
  Fleet fleet(Hung(2, 2, 2, 5), 1, out_);
  fleet.options.everything_hosts = 2;
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  for (FleetAgent& agent : fleet.agents) {
    if (phase == "digests") agent.answers_digests = agent.host != "node3";
    if (phase == "evidence") agent.answers_evidence = false;
    if (phase == "everything") agent.sends_files = false;
  }
  fleet.hold_disk = phase == "verdict";
  fleet.hold_final = phase == "final";
  const auto asked = [&](CollectRequest::Phase what) {
    size_t count = 0;
    for (const FleetAgent& agent : fleet.agents) {
      for (const CollectRequest& request : agent.requests) count += request.phase() == what;
    }
    return count;
  };
  ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] {
    if (phase == "digests") return asked(CollectRequest::DIGEST) > 0;
    if (phase == "final") return fleet.final_waits();
    if (phase == "verdict") return !fleet.printed.empty();
    if (phase == "told") return !fleet.verdicts.empty();
    if (phase == "evidence") return asked(CollectRequest::EVIDENCE) > 0;
    return asked(CollectRequest::EVERYTHING) > 0;
  }));
  for (int life = 0; life < 3; ++life) {
    fleet.Restart(100 + static_cast<uint64_t>(life));
    fleet.hold_disk = false;
    fleet.hold_final = phase == "final" && life < 2;  // killed in it again
    fleet.Pass((life * 3 + 1) * kSecond);
  }
  for (FleetAgent& agent : fleet.agents) {
    agent.answers_digests = agent.answers_evidence = agent.sends_files = true;
    agent.requests.clear();  // an agent makes a file once for a request
  }
  ASSERT_TRUE(fleet.PassUntil(600 * kSecond, [&] { return !fleet.verdicts.empty() && !fleet.core->busy(); }));
  fleet.Pass(120 * kSecond);
  EXPECT_EQ(Incidents().size(), 1u) << "what was declared before is not declared again";
  EXPECT_EQ(fleet.verdicts.size(), 1u) << "--on-verdict runs once";
  const std::string folder = Incidents()[0];
  EXPECT_THAT(Content(folder + "/manifest.json"), HasSubstr("\"whole\": true"));
  EXPECT_THAT(Read(folder).findings(0).culprit_ranks(), ::testing::ElementsAre(5));
  EXPECT_EQ(fleet.core->StatusOf("train").state(), "hung");
  if (phase == "digests") {
    EXPECT_GT(asked(CollectRequest::DIGEST), 0u) << "asked anew";
  }
  if (phase == "evidence") {
    EXPECT_GT(asked(CollectRequest::EVIDENCE), 0u) << "asked again";
  }
  if (phase == "everything") {
    const size_t before = asked(CollectRequest::EVIDENCE);
    fleet.Restart(200);
    fleet.Pass(60 * kSecond);
    EXPECT_EQ(asked(CollectRequest::EVIDENCE), before) << "it is on disk";
    EXPECT_EQ(Incidents().size(), 1u) << "nor after the incident was whole";
    EXPECT_EQ(fleet.verdicts.size(), 1u);
  }
}

INSTANTIATE_TEST_SUITE_P(Phases, KilledIn, ::testing::Values("digests", "verdict", "told", "evidence", "everything", "final"),
                         [](const auto& info) { return std::string(info.param); });

// Of one communicator of two hosts: what one of its ranks hashes at one number.
Heartbeat Hashed(const Fleet& fleet, const FleetAgent& agent, uint64_t seq, uint64_t hash, uint64_t id = 0xd5) {
  Heartbeat beat;
  *beat.mutable_job() = fleet.identity();
  beat.set_host(agent.host);
  beat.set_hosts(1);
  beat.set_mono_ns(fleet.now);
  Ranks::Of(agent.ranks).To(beat.mutable_alive());
  CommunicatorBeat* comm = beat.add_moved();
  comm->set_id(id);
  comm->set_name("dp_7");
  comm->set_size(8);
  comm->set_issued_min(seq);
  comm->set_issued_max(seq);
  comm->set_total_max(seq);
  Ranks::Of(agent.ranks).To(comm->mutable_members());
  comm->add_checkpoint(seq);
  comm->add_checkpoint_hash(hash);
  return beat;
}

// The rings are asked for when it is first seen, long before it is told; once for a communicator.
TEST_F(CollectorCoreTest, TheRingsOfASilentDesyncAreSavedAtFirstSight) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(20 * kSecond);
  const auto everything = [&] {
    size_t count = 0;
    for (const FleetAgent& agent : fleet.agents) {
      for (const CollectRequest& request : agent.requests) count += request.phase() == CollectRequest::EVERYTHING;
    }
    return count;
  };
  for (FleetAgent& agent : fleet.agents) fleet.Say(&agent, wire::Type::kHeartbeat, Hashed(fleet, agent, 112, 7));
  for (FleetAgent& agent : fleet.agents) fleet.Say(&agent, wire::Type::kHeartbeat, Hashed(fleet, agent, 128, agent.host == "node2" ? 9 : 8));
  fleet.Pass(5 * kSecond);
  EXPECT_FALSE(fleet.Heard("issued different operations")) << "seen once";
  EXPECT_GE(everything(), 4u);
  EXPECT_EQ(Incidents().size(), 1u);
  for (const FleetAgent& agent : fleet.agents) {
    for (const CollectRequest& request : agent.requests) {
      EXPECT_NE(request.phase(), CollectRequest::EVIDENCE) << "a job that runs is not stopped for its stacks";
      EXPECT_GT(request.ranks().first_size(), 0);
    }
  }
  const size_t before = everything();
  for (uint64_t seq = 144; seq < 512; seq += 16) {
    for (FleetAgent& agent : fleet.agents) fleet.Say(&agent, wire::Type::kHeartbeat, Hashed(fleet, agent, seq, agent.host == "node2" ? seq : 8));
  }
  EXPECT_TRUE(fleet.Heard("issued different operations"));
  ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] { return !fleet.core->busy(); }));
  EXPECT_EQ(everything(), before);
  ASSERT_EQ(Incidents().size(), 1u);
  const std::string folder = Incidents()[0];
  EXPECT_TRUE(std::filesystem::exists(folder + "/node2.lsd"));
  EXPECT_THAT(Content(folder + "/verdict.json"), HasSubstr("SILENT_DESYNC"));
  EXPECT_THAT(Content(folder + "/verdict.json"), HasSubstr("dp_7"));
  EXPECT_TRUE(fleet.verdicts.empty()) << "nothing hangs: nobody is paged";
  EXPECT_EQ(fleet.core->StatusOf("train").state(), "moving");
}

// A group that failed takes back what it had hashed; and however many communicators part, few are gathered.
TEST_F(CollectorCoreTest, DesyncsThatAreTakenBackLeaveNothingAndManyAreBounded) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(20 * kSecond);
  for (uint64_t id = 1; id <= 20; ++id) {
    for (FleetAgent& agent : fleet.agents) {
      fleet.Say(&agent, wire::Type::kHeartbeat, Hashed(fleet, agent, 128, agent.host == "node2" ? 9 : 8, 0xd000 + id));
    }
  }
  fleet.Pass(5 * kSecond);
  EXPECT_EQ(Incidents().size(), fleet.options.desync_gatherings);
  fleet.Pass(120 * kSecond);
  EXPECT_TRUE(Incidents().empty());
  EXPECT_FALSE(fleet.core->busy());
}

TEST_F(CollectorCoreTest, DumpByHandIsForOperators) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(10 * kSecond);
  ClientRequest request;
  request.set_kind(ClientRequest::DUMP);
  request.set_request(5);
  fleet.Ask(1, wire::Role::kReader, request);
  ASSERT_EQ(fleet.replies.size(), 1u);
  EXPECT_THAT(fleet.replies[0].error(), HasSubstr("operator"));
  EXPECT_TRUE(fleet.replies[0].done());
  fleet.Ask(2, wire::Role::kAgent, request);
  EXPECT_FALSE(fleet.replies[1].error().empty());
  request.set_job("unknown");
  fleet.Ask(3, wire::Role::kOperator, request);
  EXPECT_THAT(fleet.replies[2].error(), HasSubstr("train"));
  request.clear_job();
  fleet.replies.clear();
  fleet.Ask(3, wire::Role::kOperator, request);
  ASSERT_TRUE(fleet.PassUntil(60 * kSecond, [&] { return !fleet.replies.empty() && fleet.replies.back().done(); }));
  EXPECT_FALSE(fleet.replies.back().incident().path().empty());
  EXPECT_FALSE(fleet.replies.back().incident().text().empty());
  EXPECT_TRUE(fleet.verdicts.empty()) << "--on-verdict is for hangs";
  for (const FleetAgent& agent : fleet.agents) {
    for (const CollectRequest& asked : agent.requests) EXPECT_NE(asked.phase(), CollectRequest::EVERYTHING);
  }
}

TEST_F(CollectorCoreTest, ReadersSeeTheStatus) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(10 * kSecond);
  ClientRequest request;
  request.set_kind(ClientRequest::STATUS);
  fleet.Ask(1, wire::Role::kReader, request);
  ASSERT_EQ(fleet.replies.size(), 1u);
  ASSERT_EQ(fleet.replies[0].jobs_size(), 1);
  const JobStatus& status = fleet.replies[0].jobs(0);
  EXPECT_EQ(status.agents(), 4u);
  EXPECT_EQ(status.state(), "moving");
  EXPECT_EQ(status.communicators_total(), 13u);
  // 4 tp, 4 dp and 4 pp groups that stand alike, and the world.
  EXPECT_LE(status.communicators_size(), 4);
  request.set_kind(ClientRequest::DETAIL);
  request.set_rank(5);
  fleet.Ask(1, wire::Role::kReader, request);
  ASSERT_GE(fleet.replies[1].lines_size(), 1);
  EXPECT_THAT(fleet.replies[1].lines(0), HasSubstr("node2"));
}

TEST_F(CollectorCoreTest, DetailsAreGivenToWhoNamesTheJobWithStepAndRestart) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(3 * kSecond);
  ClientRequest request;
  request.set_kind(ClientRequest::DETAIL);
  request.set_rank(3);
  for (const char* name : {"train//0", "train", "train#1", ""}) {
    request.set_job(name);
    fleet.Ask(1, wire::Role::kReader, request);
    EXPECT_TRUE(fleet.replies.back().error().empty()) << name << ": " << fleet.replies.back().error();
    EXPECT_GE(fleet.replies.back().lines_size(), 1) << name;
  }
  for (const char* name : {"train//1", "train#2", "trai", "/"}) {
    request.set_job(name);
    fleet.Ask(1, wire::Role::kReader, request);
    EXPECT_FALSE(fleet.replies.back().error().empty()) << name;
  }
}

TEST_F(CollectorCoreTest, TenThousandCommunicatorsAreAFewLines) {
  Fleet fleet(Hung(2, 2, 2, 5), 8, out_);
  fleet.Start();
  FleetAgent agent;
  agent.peer = 999;
  agent.host = "big";
  Hello hello;
  hello.set_host("big");
  hello.set_protocol(1);
  fleet.Say(&agent, wire::Type::kHello, hello);
  Heartbeat heartbeat;
  heartbeat.mutable_job()->set_job("big");
  heartbeat.set_host("big");
  heartbeat.mutable_alive()->add_first(0);
  heartbeat.mutable_alive()->add_last(7);
  for (uint64_t i = 0; i < 10000; ++i) {
    CommunicatorBeat* beat = heartbeat.add_moved();
    beat->set_id(1 + i);
    beat->set_size(8);
    beat->set_name(absl::StrCat(i % 2 == 0 ? "tp_" : "ep_", i));
    beat->set_issued_min(100 + i);
    beat->set_issued_max(100 + i);
    beat->mutable_members()->add_first(0);
    beat->mutable_members()->add_last(7);
  }
  fleet.Say(&agent, wire::Type::kHeartbeat, heartbeat);
  fleet.Pass(kSecond);
  const JobStatus status = fleet.core->StatusOf("big");
  EXPECT_EQ(status.communicators_total(), 10000u);
  EXPECT_LE(status.communicators_size(), 4);
  uint32_t stands_for = 0;
  for (const CommunicatorStatus& line : status.communicators()) stands_for += line.alike();
  EXPECT_EQ(stands_for, 10000u);
}

TEST_F(CollectorCoreTest, TwoJobsOfOneNameAreToldApart) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(10 * kSecond);
  // The same name, user and ranks on another host, other communicators.
  FleetAgent other;
  other.peer = 999;
  other.host = "elsewhere";
  Hello hello;
  hello.set_host("elsewhere");
  hello.set_protocol(1);
  fleet.Say(&other, wire::Type::kHello, hello);
  Heartbeat heartbeat;
  *heartbeat.mutable_job() = fleet.identity();
  heartbeat.set_host("elsewhere");
  heartbeat.mutable_alive()->add_first(0);
  heartbeat.mutable_alive()->add_last(7);
  CommunicatorBeat* beat = heartbeat.add_moved();
  beat->set_id(0xabcdef);
  beat->set_size(8);
  beat->set_issued_max(5);
  fleet.Say(&other, wire::Type::kHeartbeat, heartbeat);
  fleet.Pass(kSecond);
  EXPECT_EQ(fleet.core->StatusOf("train").ranks(), 8u);
  EXPECT_EQ(fleet.core->StatusOf("train").agents(), 4u);
  EXPECT_EQ(fleet.core->StatusOf("train#2").agents(), 1u);
  // Another user's is another job as a matter of course.
  heartbeat.mutable_job()->set_uid(2000);
  fleet.Say(&other, wire::Type::kHeartbeat, heartbeat);
  ClientRequest request;
  request.set_kind(ClientRequest::STATUS);
  fleet.Ask(1, wire::Role::kReader, request);
  EXPECT_EQ(fleet.replies.back().jobs_size(), 3);
  // A dump of "train" alone would be a guess.
  request.set_kind(ClientRequest::DUMP);
  request.set_job("nothing");
  fleet.Ask(1, wire::Role::kOperator, request);
  EXPECT_FALSE(fleet.replies.back().error().empty());
}

// What relays say of two generations, the older of which nobody lives in any more.
Heartbeat FromRelay(const Fleet& fleet, uint32_t restart, const Ranks& alive, const Ranks& ended, uint64_t issued) {
  Heartbeat beat;
  *beat.mutable_job() = fleet.identity();
  beat.mutable_job()->set_restart_count(restart);
  beat.set_hosts(2);
  alive.To(beat.mutable_alive());
  ended.To(beat.mutable_ended());
  CommunicatorBeat* comm = beat.add_moved();
  comm->set_id(0xa1 + restart);
  comm->set_size(8);
  comm->set_issued_min(issued);
  comm->set_issued_max(issued);
  comm->set_total_max(issued);
  Ranks members = alive;
  members.Unite(ended);
  members.To(comm->mutable_members());
  return beat;
}

void RelayArrives(Fleet* fleet, FleetAgent* relay) {
  Hello hello;
  hello.set_role(Hello::RELAY);
  hello.set_host(relay->host);
  hello.set_instance(relay->peer);
  hello.set_protocol(1);
  fleet->Say(relay, wire::Type::kHello, hello, wire::Role::kRelay);
}

// Each with its own number of the two: what a relay says of one job is never laid to the other.
TEST_F(CollectorCoreTest, TwoJobsOfOneNameBehindRelaysAreToldApart) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  for (FleetAgent& agent : fleet.agents) agent.connected = false;
  fleet.Start();
  FleetAgent one, two;
  one.host = "relay0", one.peer = 501;
  two.host = "relay1", two.peer = 502;
  RelayArrives(&fleet, &one);
  RelayArrives(&fleet, &two);
  const auto beat = [&](FleetAgent* relay, uint32_t life, const Ranks& ranks, uint64_t comm, uint64_t issued) {
    Heartbeat heartbeat = FromRelay(fleet, 0, ranks, {}, issued);
    heartbeat.mutable_job()->set_life(life);
    heartbeat.mutable_moved(0)->set_id(comm);
    if (comm == 0xa) heartbeat.add_blind("node3: no new rings are found: /mnt/nfs has not answered for 120 s");
    fleet.Say(relay, wire::Type::kHeartbeat, heartbeat, wire::Role::kRelay);
  };
  const auto second = [&](uint64_t issued) {
    beat(&one, 0, Ranks::Between(0, 3), 0xa, issued);
    beat(&one, 1, Ranks::Between(0, 3), 0xb, issued);
    beat(&two, 0, Ranks::Between(4, 7), 0xb, issued);  // the other way round
    beat(&two, 1, Ranks::Between(4, 7), 0xa, issued);
    fleet.Pass(kSecond);
  };
  for (uint64_t i = 1; i < 10; ++i) second(i);
  EXPECT_EQ(fleet.core->StatusOf("train").ranks(), 8u);
  EXPECT_EQ(fleet.core->StatusOf("train#2").ranks(), 8u);
  EXPECT_TRUE(fleet.decisions.empty());
  EXPECT_FALSE(fleet.Heard("claimed"));
  // What an agent cannot see is said of the job that it may be missing in, once.
  ASSERT_EQ(fleet.core->StatusOf("train").blind_size(), 1);
  EXPECT_EQ(fleet.core->StatusOf("train").blind(0), "node3: no new rings are found: /mnt/nfs has not answered for 120 s");
  EXPECT_EQ(fleet.core->StatusOf("train#2").blind_size(), 0);
  // One of them is late: the other moves.
  LateReport late;
  *late.mutable_job() = fleet.identity();
  late.set_communicator(0xb);
  late.set_in_flight_ns(6 * kSecond);
  late.set_limit_ns(5 * kSecond);
  late.mutable_waiting()->add_first(4);
  late.mutable_waiting()->add_last(7);
  fleet.Say(&two, wire::Type::kLate, late, wire::Role::kRelay);
  second(10);
  EXPECT_EQ(fleet.core->StatusOf("train").state(), "moving");
  EXPECT_EQ(fleet.core->StatusOf("train#2").state(), "late");
  // A dump of "train" would be a guess.
  ClientRequest request;
  request.set_kind(ClientRequest::DUMP);
  request.set_job("train");
  fleet.Ask(1, wire::Role::kOperator, request);
  EXPECT_EQ(fleet.replies.back().error(), "which job? train#1, train#2");
  request.set_job("train#1");
  fleet.Ask(1, wire::Role::kOperator, request);
  EXPECT_TRUE(fleet.replies.back().error().empty()) << fleet.replies.back().error();
  // As `lockstep top` says it, step and restart count behind.
  request.set_kind(ClientRequest::DETAIL);
  request.set_rank(3);
  for (const char* name : {"train#1//0", "train#2//0"}) {
    request.set_job(name);
    fleet.Ask(1, wire::Role::kReader, request);
    EXPECT_TRUE(fleet.replies.back().error().empty()) << name << fleet.replies.back().error();
  }
  request.set_job("train//0");
  fleet.Ask(1, wire::Role::kReader, request);
  EXPECT_EQ(fleet.replies.back().error(), "which job? train#1, train#2");
  request.clear_rank();
  // Who names a communicator watches the job that has it.
  request.set_kind(ClientRequest::WATCH);
  request.set_job("train");
  request.set_request(5);
  request.add_kin(0xb);
  fleet.Ask(2, wire::Role::kReader, request);
  fleet.replies.clear();
  second(11);
  size_t watched = 0;
  for (const ClientReply& reply : fleet.replies) {
    if (reply.request() != 5) continue;
    ++watched;
    ASSERT_EQ(reply.jobs_size(), 1);
    EXPECT_EQ(reply.jobs(0).job().job(), "train#2");
  }
  EXPECT_GE(watched, 1u);
}

TEST_F(CollectorCoreTest, RanksClaimedTwiceInOneJobAreSaid) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(10 * kSecond);
  FleetAgent other = fleet.agents[0];
  other.peer = 999;
  other.host = "copy";
  Hello hello;
  hello.set_host("copy");
  hello.set_protocol(1);
  fleet.Say(&other, wire::Type::kHello, hello);
  Heartbeat heartbeat;
  *heartbeat.mutable_job() = fleet.identity();
  heartbeat.set_host("copy");
  heartbeat.mutable_alive()->add_first(0);
  heartbeat.mutable_alive()->add_last(1);
  const JobStatus status = fleet.core->StatusOf("train");
  CommunicatorBeat* beat = heartbeat.add_moved();
  beat->set_id(status.communicators(0).id());
  beat->set_size(status.communicators(0).size());
  fleet.Say(&other, wire::Type::kHeartbeat, heartbeat);
  EXPECT_TRUE(fleet.Heard("are claimed by node0 and by copy")) << ::testing::PrintToString(fleet.said);
  EXPECT_EQ(fleet.core->StatusOf("train").agents(), 5u);
}

TEST_F(CollectorCoreTest, RestartsAreGenerationsOfTheirOwn) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(10 * kSecond);
  Heartbeat heartbeat;
  *heartbeat.mutable_job() = fleet.identity();
  heartbeat.mutable_job()->set_restart_count(1);
  heartbeat.set_host("node0");
  heartbeat.mutable_alive()->add_first(0);
  heartbeat.mutable_alive()->add_last(1);
  fleet.Say(&fleet.agents[0], wire::Type::kHeartbeat, heartbeat);
  EXPECT_EQ(fleet.core->StatusOf("train/0/1").ranks(), 2u);
  EXPECT_EQ(fleet.core->StatusOf("train").ranks(), 8u);
}

// Relays that speak of the next generation alone are not silent about the one before, and nobody is late in it.
TEST_F(CollectorCoreTest, AGenerationThatRelaysSpeakOfNoMoreIsNoSilence) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  for (FleetAgent& agent : fleet.agents) agent.connected = false;
  fleet.Start();
  FleetAgent one, two;
  one.host = "relay0", one.peer = 501;
  two.host = "relay1", two.peer = 502;
  RelayArrives(&fleet, &one);
  RelayArrives(&fleet, &two);
  const Ranks low = Ranks::Between(0, 3), high = Ranks::Between(4, 7);
  // Told at moments that are seconds apart: one is behind the other, for ever.
  fleet.Say(&one, wire::Type::kHeartbeat, FromRelay(fleet, 0, low, {}, 40), wire::Role::kRelay);
  fleet.Say(&two, wire::Type::kHeartbeat, FromRelay(fleet, 0, high, {}, 47), wire::Role::kRelay);
  for (int second = 0; second < 60; ++second) {
    fleet.Say(&one, wire::Type::kHeartbeat, FromRelay(fleet, 1, low, {}, 10 + second), wire::Role::kRelay);
    fleet.Say(&two, wire::Type::kHeartbeat, FromRelay(fleet, 1, high, {}, 10 + second), wire::Role::kRelay);
    if (second == 1) {
      Heartbeat over = FromRelay(fleet, 0, {}, {}, 0);
      over.set_over(true);
      fleet.Say(&one, wire::Type::kHeartbeat, over, wire::Role::kRelay);  // that of the other is lost
    }
    fleet.Pass(kSecond);
  }
  EXPECT_TRUE(fleet.decisions.empty()) << fleet.decisions[0].reason;
  EXPECT_FALSE(fleet.Heard("silent"));
  EXPECT_TRUE(fleet.Heard("nobody speaks of it any more"));
  EXPECT_EQ(fleet.core->StatusOf("train").state(), "ended");
  EXPECT_EQ(fleet.core->StatusOf("train/0/1").state(), "moving");
  EXPECT_EQ(fleet.core->counters().rounds, 0u);
}

// What is urgent overtakes the heartbeat that makes a job known to a collector that was just started.
TEST_F(CollectorCoreTest, ALateReportBeforeTheFirstHeartbeatCounts) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  for (FleetAgent& agent : fleet.agents) agent.connected = false;
  fleet.Start();
  FleetAgent relay;
  relay.host = "relay0", relay.peer = 501;
  RelayArrives(&fleet, &relay);
  LateReport late;
  *late.mutable_job() = fleet.identity();
  late.set_communicator(0xa1);
  late.set_in_flight_ns(6 * kSecond);
  late.set_limit_ns(5 * kSecond);
  late.mutable_waiting()->add_first(0);
  late.mutable_waiting()->add_last(2);
  fleet.Say(&relay, wire::Type::kLate, late, wire::Role::kRelay);
  fleet.Pass(kSecond);
  fleet.Say(&relay, wire::Type::kHeartbeat, FromRelay(fleet, 0, Ranks::Between(0, 7), {}, 40), wire::Role::kRelay);
  fleet.Pass(kSecond / 2);
  EXPECT_EQ(fleet.core->StatusOf("train").state(), "late");
}

// A generation that died before this collector began is history, whatever its last numbers say.
TEST_F(CollectorCoreTest, AGenerationThatEndedBeforeIsNotJudged) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  for (FleetAgent& agent : fleet.agents) agent.connected = false;
  fleet.Start();
  FleetAgent one, two;
  one.host = "relay0", one.peer = 501;
  two.host = "relay1", two.peer = 502;
  RelayArrives(&fleet, &one);
  RelayArrives(&fleet, &two);
  const Ranks low = Ranks::Between(0, 3), high = Ranks::Between(4, 7);
  ProcessEnded end;
  *end.mutable_job() = fleet.identity();
  end.mutable_state()->set_life(ProcessState::KILLED);
  end.mutable_state()->set_signal(9);
  for (int second = 0; second < 60; ++second) {
    fleet.Say(&one, wire::Type::kHeartbeat, FromRelay(fleet, 0, {}, low, 40), wire::Role::kRelay);
    fleet.Say(&two, wire::Type::kHeartbeat, FromRelay(fleet, 0, {}, high, 47), wire::Role::kRelay);
    fleet.Say(&one, wire::Type::kHeartbeat, FromRelay(fleet, 1, low, {}, 10 + second), wire::Role::kRelay);
    fleet.Say(&two, wire::Type::kHeartbeat, FromRelay(fleet, 1, high, {}, 10 + second), wire::Role::kRelay);
    end.set_rank(second % 8);
    fleet.Say(&one, wire::Type::kEnded, end, wire::Role::kRelay);
    fleet.Pass(kSecond);
  }
  EXPECT_TRUE(fleet.decisions.empty()) << fleet.decisions[0].reason;
  EXPECT_EQ(fleet.core->StatusOf("train").state(), "ended");
  EXPECT_EQ(fleet.core->StatusOf("train/0/1").state(), "moving");
}

TEST_F(CollectorCoreTest, APauseOfTheCollectorIsHeldAgainstNobody) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.now += 600 * kSecond;
  fleet.Pass(20 * kSecond);
  EXPECT_TRUE(fleet.Heard("did not run for"));
  EXPECT_FALSE(fleet.Heard("silent"));
  EXPECT_TRUE(Incidents().empty());
}

TEST_F(CollectorCoreTest, TheWallClockMayJump) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.real_offset += 5 * kHour;
  fleet.Pass(60 * kSecond);
  fleet.real_offset -= 11 * kHour;
  fleet.Pass(60 * kSecond);
  EXPECT_TRUE(fleet.decisions.empty());
  EXPECT_TRUE(Incidents().empty());
}

TEST_F(CollectorCoreTest, AFullDiskKeepsTheVerdictFromNobody) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.options.store.reserve = UINT64_MAX / 2;
  fleet.options.give_up_ns = 120 * kSecond;
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] { return !fleet.printed.empty(); }));
  fleet.Pass(20 * kSecond);
  EXPECT_TRUE(fleet.Heard("full"));
  for (const FleetAgent& agent : fleet.agents) EXPECT_TRUE(agent.acknowledged.empty());
  // Somebody makes room.
  fleet.options.store.reserve = 0;
  fleet.Restart(8);
  ASSERT_TRUE(fleet.PassUntil(600 * kSecond, [&] { return !fleet.core->busy(); }));
  EXPECT_THAT(Content(Incidents()[0] + "/manifest.json"), HasSubstr("\"whole\": true"));
}

TEST_F(CollectorCoreTest, AVerdictIsSaidWhereNothingCanBeWritten) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_ + "/file/below");
  std::ofstream(out_ + "/file") << "no folder";
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] { return !fleet.printed.empty(); }));
  EXPECT_THAT(fleet.printed[0], HasSubstr("rank 5"));
  fleet.Pass(10 * kSecond);
  EXPECT_TRUE(fleet.Heard("not complete"));
  EXPECT_FALSE(fleet.core->busy());
}

TEST_F(CollectorCoreTest, AnAgentOfANewerProtocolIsToldWhy) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  FleetAgent agent;
  agent.peer = 999;
  Hello hello;
  hello.set_protocol(9);
  hello.set_min_protocol(9);
  fleet.Say(&agent, wire::Type::kHello, hello);
  EXPECT_THAT(fleet.welcomes[999].refused(), HasSubstr("protocol"));
  hello.set_min_protocol(1);
  fleet.Say(&agent, wire::Type::kHello, hello);
  EXPECT_TRUE(fleet.welcomes[999].refused().empty());
  EXPECT_EQ(fleet.welcomes[999].protocol(), 1u);
}

TEST_F(CollectorCoreTest, NonsenseIsCountedAndDropped) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(5 * kSecond);
  for (uint8_t type = 1; type <= wire::kHighestType; ++type) {
    wire::Received received;
    received.peer = 101;
    received.role = wire::Role::kAgent;
    received.message.header.type = static_cast<wire::Type>(type);
    received.message.body = std::string(100, '\xff');
    received.message.header.raw_bytes = 100;
    fleet.core->Receive(fleet.now, received);
  }
  EXPECT_GE(fleet.core->counters().malformed, 7u);
  // A digest nobody asked for, a chunk for no incident, sets of ranks that are none.
  DigestEnvelope digest;
  digest.set_host("node0");
  digest.set_request(12345);
  digest.add_ranks("rubbish");
  fleet.Say(&fleet.agents[0], wire::Type::kDigest, digest);
  Chunk chunk;
  chunk.set_id(std::string(16, 'i'));
  chunk.set_incident("../../etc");
  fleet.Say(&fleet.agents[0], wire::Type::kChunk, chunk);
  Heartbeat heartbeat;
  *heartbeat.mutable_job() = fleet.identity();
  heartbeat.set_host("node0");
  heartbeat.mutable_alive()->add_first(-5);
  heartbeat.mutable_alive()->add_last(2'000'000'000);
  fleet.Say(&fleet.agents[0], wire::Type::kHeartbeat, heartbeat);
  fleet.Pass(5 * kSecond);
  EXPECT_TRUE(fleet.agents[0].refused.count(std::string(16, 'i')));
  EXPECT_EQ(fleet.core->StatusOf("train").ranks(), 8u);
}

}  // namespace
}  // namespace lockstep
