#include "collector/service/core/core.h"
#include "analyzer/util/time_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/engine.h"
#include "analyzer/evidence/merged_stacks.h"
#include "analyzer/testing/job.h"
#include "collector/testing/fleet.h"

namespace lockstep {
namespace {

using testing::Fleet;
using testing::FleetAgent;
using ::testing::HasSubstr;
using testing::HostFault;
using testing::Hung;

constexpr int64_t kHour = 3600 * kSecond;

class CollectorCoreTest : public testing::FleetTest {};

TEST_F(CollectorCoreTest, AMovingJobIsNotDisturbedForAnHour) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(kHour);
  EXPECT_TRUE(fleet.decisions.empty());
  EXPECT_TRUE(Incidents().empty());
  EXPECT_EQ(fleet.core->counters().rounds, 0u);
  EXPECT_EQ(fleet.core->StatusOf("train").state(), "moving");
  EXPECT_EQ(fleet.core->StatusOf("train").ranks(), 8u);
}

TEST_F(CollectorCoreTest, DigestsAndTheWholeIncidentGiveTheSameVerdict) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] { return !fleet.printed.empty(); }));
  EXPECT_THAT(fleet.printed[0], HasSubstr("rank 5"));
  ASSERT_EQ(Incidents().size(), 1u);
  EXPECT_EQ(fleet.core->StatusOf("train").state(), "hung");
  // The verdict is on disk before any other file arrives.
  ASSERT_TRUE(fleet.PassUntil(60 * kSecond, [&] { return !fleet.core->busy(); }));
  const std::string folder = Incidents()[0];
  for (const char* name :
       {"verdict.json", "verdict.txt", "report.html", "explore.html", "manifest.json", "node0.lsd", "node3.lsd"}) {
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
  ASSERT_EQ(fleet.verdicts.size(), 1u) << "--on-verdict must run once";
  EXPECT_THAT(fleet.verdicts[0], HasSubstr("\"culprit_ranks\""));
  EXPECT_THAT(fleet.verdicts[0], HasSubstr("\"recommended\""));
  // Every acknowledged chunk is in the ledger once.
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

TEST_F(CollectorCoreTest, EvidenceIsRequestedForTheCulpritAndFewOthers) {
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
  EXPECT_LT(asked.size(), 16u) << "must not ask every rank";
}

// Merged stacks of more ranks arrive from each chain link. They are in stacks.json and in the report.
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
  EXPECT_THAT(Content(folder + "/explore.html"), HasSubstr("of_node2"));
}

TEST_F(CollectorCoreTest, AgentsWithoutMergedStacksDelayTheEvidenceOnlyBriefly) {
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

TEST_F(CollectorCoreTest, FreshStacksAreOnlyForOperators) {
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
  EXPECT_THAT(fleet.replies[1].error(), HasSubstr("no rank is waiting for another rank"));
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

TEST_F(CollectorCoreTest, AgentsThatDoNotAnswerAreNamedAndDoNotDelayTheVerdict) {
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
  EXPECT_THAT(verdict.findings(0).culprit_ranks(), ::testing::ElementsAre(5)) << "rank 5's digest has arrived";
  EXPECT_EQ(verdict.ranks_read(), 7);
}

// After an agent has reconnected to its relay, the route of its digest is no longer valid.
TEST_F(CollectorCoreTest, AgentsThatReconnectedToTheirRelayAreReached) {
  for (const bool before_evidence : {true, false}) {
    SCOPED_TRACE(before_evidence);
    for (const std::string& incident : Incidents()) std::filesystem::remove_all(incident);
    Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
    for (FleetAgent& agent : fleet.agents) agent.route = {agent.peer + 7000};
    fleet.options.give_up_ns = 40 * kSecond;
    fleet.Start();
    fleet.Pass(60 * kSecond);
    fleet.stop_ns = fleet.now;
    const auto asked = [&](CollectRequest::Phase phase) {
      return std::any_of(fleet.agents[2].requests.begin(), fleet.agents[2].requests.end(),
                         [&](const CollectRequest& r) { return r.phase() == phase; });
    };
    if (before_evidence) {
      ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] { return !fleet.decisions.empty(); }));
    } else {
      for (FleetAgent& agent : fleet.agents) agent.sends_files = false;  // the request is lost with the connection
      ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] { return asked(CollectRequest::EVERYTHING); }));
      for (FleetAgent& agent : fleet.agents) agent.sends_files = true, agent.requests.clear();
    }
    for (FleetAgent& agent : fleet.agents) agent.route[0] += 1000;
    ASSERT_TRUE(fleet.PassUntil(300 * kSecond, [&] { return !fleet.printed.empty() && !fleet.core->busy(); }));
    ASSERT_EQ(Incidents().size(), 1u);
    EXPECT_TRUE(asked(CollectRequest::EVERYTHING));
    EXPECT_EQ(asked(CollectRequest::EVIDENCE), before_evidence);
    EXPECT_THAT(Content(Incidents()[0] + "/manifest.json"), HasSubstr("\"whole\": true"));
    EXPECT_FALSE(fleet.Heard("received nothing more"));
  }
}

TEST_F(CollectorCoreTest, OnlyAHungJobHasCulprits) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] { return !fleet.printed.empty() && !fleet.core->busy(); }));
  ASSERT_EQ(fleet.core->States().size(), 1u);
  EXPECT_EQ(fleet.core->States()[0].state, "hung");
  ASSERT_EQ(fleet.core->States()[0].culprits.size(), 1u);
  EXPECT_EQ(fleet.core->States()[0].culprits[0].rank(), 5);
  for (FleetAgent& agent : fleet.agents) {
    agent.connected = false;
    Heartbeat over;
    *over.mutable_job() = fleet.identity();
    over.set_host(agent.host);
    over.set_over(true);
    fleet.Say(&agent, wire::Type::kHeartbeat, over);
  }
  ASSERT_TRUE(fleet.PassUntil(60 * kSecond, [&] { return fleet.core->States()[0].state == "ended"; }));
  EXPECT_TRUE(fleet.core->States()[0].culprits.empty());
}

TEST_F(CollectorCoreTest, AHostWithoutRingsIsNotWaitedFor) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.agents[1].no_rings = "no rings from node1: the disk is full";
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] { return !fleet.printed.empty(); }));
  EXPECT_TRUE(fleet.PassUntil(fleet.options.give_up_ns / 2, [&] { return !fleet.core->busy(); }));
  EXPECT_TRUE(fleet.Heard("no rings from node1: the disk is full"));
  EXPECT_THAT(Content(Incidents()[0] + "/manifest.json"), HasSubstr("\"whole\": false"));
  EXPECT_THAT(Content(Incidents()[0] + "/verdict.txt"), HasSubstr("full rings from node1 did not arrive"));
}

// The collector was killed after it created the folder, but before the first file got its name. `lockstep run` may be
// writing its own incidents next to the collector's.
TEST_F(CollectorCoreTest, OnlyAFolderThatACollectorBeganIsRemoved) {
  const std::string begun = out_ + "/lockstep-incident-train-1", noted = out_ + "/lockstep-incident-train-2",
                    other = out_ + "/lockstep-incident-train-3", empty = out_ + "/lockstep-incident-train-4";
  for (const std::string& folder : {begun, noted, other, empty}) ASSERT_TRUE(MakeIncidentFolder(folder).ok());
  for (const std::string& folder : {begun, noted})
    std::ofstream(folder + "/.lockstep.gathering.a1B2c3") << "{\"format\": 1";
  std::ofstream(noted + "/notes.txt") << "another program's file";
  std::ofstream(other + "/.lockstep.a1B2c3") << "the first half of a verdict";
  std::vector<std::string> problems;
  EXPECT_TRUE(FindUnfinished(out_, &problems).empty());
  EXPECT_TRUE(problems.empty());
  EXPECT_FALSE(std::filesystem::exists(begun));
  EXPECT_TRUE(std::filesystem::exists(noted + "/notes.txt"));
  EXPECT_TRUE(std::filesystem::exists(other + "/.lockstep.a1B2c3"));
  EXPECT_TRUE(std::filesystem::exists(empty));
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

TEST_F(CollectorCoreTest, ACollectorRestartedWhileGatheringContinues) {
  Fleet fleet(Hung(2, 2, 2, 5), 1, out_);
  fleet.options.everything_hosts = 3;
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] { return !fleet.printed.empty(); }));
  std::set<std::string> acknowledged;
  for (int life = 0; life < 12; ++life) {
    // The collector dies each time another chunk has been acknowledged. Once, it dies when everything was written but
    // no acknowledgment had been sent.
    fleet.lose_acks = life == 3;
    fleet.PassUntil(30 * kSecond, [&] {
      size_t count = 0;
      for (const FleetAgent& agent : fleet.agents) count += agent.acknowledged.size();
      return count > acknowledged.size();
    });
    for (const FleetAgent& agent : fleet.agents)
      acknowledged.insert(agent.acknowledged.begin(), agent.acknowledged.end());
    fleet.lose_acks = false;
    fleet.Restart(100 + static_cast<uint64_t>(life));
  }
  ASSERT_TRUE(fleet.PassUntil(1200 * kSecond, [&] { return !fleet.core->busy(); }));
  ASSERT_EQ(Incidents().size(), 1u) << "a hang must not be declared twice";
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
  EXPECT_EQ(lines, 24u) << "each id must appear once";
  EXPECT_THAT(Read(folder).findings(0).culprit_ranks(), ::testing::ElementsAre(5));
}

// Digests alone may give a different verdict than the whole rings and stacks gave before. If nothing has moved since,
// it is the same hang.
TEST_F(CollectorCoreTest, ARestartWithAnotherVerdictDeclaresNoNewHang) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(300 * kSecond, [&] { return !fleet.verdicts.empty() && !fleet.core->busy(); }));
  ASSERT_EQ(Incidents().size(), 1u);
  for (uint64_t life = 0; life < 3; ++life) {
    std::ofstream(Incidents()[0] + "/verdict.json")
        << R"({"findings": [{"kind": "GPU_STALL", "culprit_ranks": [1], "sequence": 3}]})";
    fleet.Restart(100 + life);
    fleet.Pass(120 * kSecond);
    EXPECT_EQ(Incidents().size(), 1u);
  }
  EXPECT_TRUE(fleet.Heard("already declared"));
  EXPECT_EQ(fleet.verdicts.size(), 1u);
}

// A collector that is killed repeatedly in any phase of an incident must continue in that phase.
class KilledIn : public CollectorCoreTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(KilledIn, ThePhaseResumesAndEverythingIsReportedOnce) {
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
    fleet.hold_final = phase == "final" && life < 2;  // killed again in the same phase
    fleet.Pass((life * 3 + 1) * kSecond);
  }
  for (FleetAgent& agent : fleet.agents) {
    agent.answers_digests = agent.answers_evidence = agent.sends_files = true;
    agent.requests.clear();  // an agent creates a file only once per request
  }
  ASSERT_TRUE(fleet.PassUntil(600 * kSecond, [&] { return !fleet.verdicts.empty() && !fleet.core->busy(); }));
  fleet.Pass(120 * kSecond);
  EXPECT_EQ(Incidents().size(), 1u) << "a hang must not be declared twice";
  EXPECT_EQ(fleet.verdicts.size(), 1u) << "--on-verdict must run once";
  const std::string folder = Incidents()[0];
  EXPECT_THAT(Content(folder + "/manifest.json"), HasSubstr("\"whole\": true"));
  EXPECT_THAT(Read(folder).findings(0).culprit_ranks(), ::testing::ElementsAre(5));
  EXPECT_EQ(fleet.core->StatusOf("train").state(), "hung");
  if (phase == "digests") {
    EXPECT_GT(asked(CollectRequest::DIGEST), 0u) << "asked again";
  }
  if (phase == "evidence") {
    EXPECT_GT(asked(CollectRequest::EVIDENCE), 0u) << "asked again";
  }
  if (phase == "everything") {
    const size_t before = asked(CollectRequest::EVIDENCE);
    fleet.Restart(200);
    fleet.Pass(60 * kSecond);
    EXPECT_EQ(asked(CollectRequest::EVIDENCE), before) << "the evidence is already on disk";
    EXPECT_EQ(Incidents().size(), 1u) << "no second incident when the first was complete";
    EXPECT_EQ(fleet.verdicts.size(), 1u);
  }
}

INSTANTIATE_TEST_SUITE_P(Phases, KilledIn,
                         ::testing::Values("digests", "verdict", "told", "evidence", "everything", "final"),
                         [](const auto& info) { return std::string(info.param); });

// Returns an agent's heartbeat with a hash at one sequence number of a communicator on two hosts.
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

// The rings are requested when the difference is first seen, long before the report, and once per communicator.
TEST_F(CollectorCoreTest, RingsOfASilentDesyncAreSavedWhenItIsFirstSeen) {
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
  for (FleetAgent& agent : fleet.agents)
    fleet.Say(&agent, wire::Type::kHeartbeat, Hashed(fleet, agent, 128, agent.host == "node2" ? 9 : 8));
  fleet.Pass(5 * kSecond);
  EXPECT_FALSE(fleet.Heard("made different calls")) << "seen once";
  EXPECT_GE(everything(), 4u);
  EXPECT_EQ(Incidents().size(), 1u);
  for (const FleetAgent& agent : fleet.agents) {
    for (const CollectRequest& request : agent.requests) {
      EXPECT_NE(request.phase(), CollectRequest::EVIDENCE) << "a running job must not be stopped for its stacks";
      EXPECT_GT(request.ranks().first_size(), 0);
    }
  }
  const size_t before = everything();
  for (uint64_t seq = 144; seq < 512; seq += 16) {
    for (FleetAgent& agent : fleet.agents)
      fleet.Say(&agent, wire::Type::kHeartbeat, Hashed(fleet, agent, seq, agent.host == "node2" ? seq : 8));
  }
  EXPECT_TRUE(fleet.Heard("made different calls"));
  ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] { return !fleet.core->busy(); }));
  EXPECT_EQ(everything(), before);
  ASSERT_EQ(Incidents().size(), 1u);
  const std::string folder = Incidents()[0];
  EXPECT_TRUE(std::filesystem::exists(folder + "/node2.lsd"));
  EXPECT_THAT(Content(folder + "/verdict.json"), HasSubstr("SILENT_DESYNC"));
  EXPECT_THAT(Content(folder + "/verdict.json"), HasSubstr("dp_7"));
  ASSERT_EQ(fleet.verdicts.size(), 1u) << "the verdict must come once, when the desync is confirmed";
  EXPECT_THAT(fleet.verdicts[0], HasSubstr("SILENT_DESYNC"));
  EXPECT_THAT(fleet.verdicts[0], HasSubstr("\"action\": \"ask\""));
  for (uint64_t life = 0; life < 3; ++life) {
    fleet.Restart(100 + life);
    fleet.Pass(5 * kSecond);
    for (FleetAgent& agent : fleet.agents)
      fleet.Say(&agent, wire::Type::kHeartbeat,
                Hashed(fleet, agent, 512 + 16 * life, agent.host == "node2" ? life : 8));
    fleet.Pass(5 * kSecond);
  }
  EXPECT_EQ(Incidents().size(), 1u) << "an earlier collector has already gathered this desync";
  EXPECT_EQ(fleet.core->StatusOf("train").state(), "moving");
}

// A failed group reverts its hashes. Only a few communicators are gathered, no matter how many differ.
TEST_F(CollectorCoreTest, RetractedDesyncsLeaveNothingAndTheirNumberIsBounded) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(20 * kSecond);
  for (uint64_t id = 1; id <= 20; ++id) {
    for (FleetAgent& agent : fleet.agents) {
      fleet.Say(&agent, wire::Type::kHeartbeat, Hashed(fleet, agent, 128, agent.host == "node2" ? 9 : 8, 0xd000 + id));
    }
  }
  fleet.Pass(5 * kSecond);
  EXPECT_EQ(Incidents().size(), 4u);
  fleet.Pass(120 * kSecond);
  EXPECT_TRUE(Incidents().empty());
  EXPECT_FALSE(fleet.core->busy());
}

TEST_F(CollectorCoreTest, AManualDumpIsOnlyForOperators) {
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
  EXPECT_TRUE(fleet.verdicts.empty()) << "the verdict of a manual dump goes only to the user who asked";
  for (const FleetAgent& agent : fleet.agents) {
    for (const CollectRequest& asked : agent.requests) EXPECT_NE(asked.phase(), CollectRequest::EVERYTHING);
  }
}

TEST_F(CollectorCoreTest, AnExaminationIsForOneOperatorAtATimeAndLogged) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.agents[3].answers_evidence = false;
  fleet.Start();
  fleet.Pass(10 * kSecond);
  ClientRequest request;
  request.set_kind(ClientRequest::EXAMINE);
  request.set_request(5);
  request.set_job("other\n");
  for (const wire::Role role : {wire::Role::kReader, wire::Role::kAgent}) fleet.Ask(1, role, request);
  ASSERT_EQ(fleet.replies.size(), 2u);
  for (const ClientReply& reply : fleet.replies) EXPECT_THAT(reply.error(), HasSubstr("operator"));
  fleet.replies.clear();
  fleet.Ask(3, wire::Role::kOperator, request);
  fleet.Ask(3, wire::Role::kOperator, request);  // repeated after a reconnection
  EXPECT_TRUE(fleet.replies.empty());
  EXPECT_TRUE(fleet.Heard("examine the processes of job 'other '"));
  ClientRequest second = request;
  second.set_request(6);
  fleet.Ask(4, wire::Role::kOperator, second);
  ASSERT_EQ(fleet.replies.size(), 1u);
  EXPECT_THAT(fleet.replies[0].error(), HasSubstr("being examined"));
  fleet.replies.clear();
  // Answers that agents sent before a reconnection are sent again.
  ASSERT_TRUE(fleet.PassUntil(10 * kSecond, [&] { return fleet.replies.size() >= 2; }));
  const size_t before = fleet.replies.size();
  fleet.replies.clear();
  fleet.Ask(9, wire::Role::kOperator, request);
  EXPECT_EQ(fleet.replies.size(), before);
  ASSERT_TRUE(fleet.PassUntil(60 * kSecond, [&] { return !fleet.replies.empty() && fleet.replies.back().done(); }));
  EXPECT_THAT(fleet.replies.back().progress(), HasSubstr("1 agent or relay did not answer"));
  std::set<std::string> whole;
  for (const ClientReply& reply : fleet.replies) {
    EXPECT_EQ(reply.request(), 5u);
    if (reply.examined().last()) whole.insert(reply.examined().host());
  }
  EXPECT_EQ(whole.size(), fleet.agents.size() - 1);
  for (const FleetAgent& agent : fleet.agents) {
    EXPECT_EQ(std::count_if(agent.requests.begin(), agent.requests.end(),
                            [](const CollectRequest& asked) { return asked.phase() == CollectRequest::EXAMINE; }),
              1);
  }
  fleet.agents[3].answers_evidence = true;
  fleet.replies.clear();
  fleet.Ask(4, wire::Role::kOperator, second);
  ASSERT_TRUE(fleet.PassUntil(5 * kSecond, [&] { return !fleet.replies.empty() && fleet.replies.back().done(); }));
  fleet.replies.clear();
  second.set_request(7);
  fleet.Ask(4, wire::Role::kOperator, second);
  EXPECT_THAT(fleet.replies.at(0).error(), HasSubstr("the last examination began"));
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
  // All communicators of one kind (tp, dp, pp) are in one state and become one line; the world is another line.
  EXPECT_LE(status.communicators_size(), 4);
  request.set_kind(ClientRequest::DETAIL);
  request.set_rank(5);
  fleet.Ask(1, wire::Role::kReader, request);
  ASSERT_GE(fleet.replies[1].lines_size(), 1);
  EXPECT_THAT(fleet.replies[1].lines(0), HasSubstr("node2"));
}

TEST_F(CollectorCoreTest, DetailsNeedAJobNameWithStepAndRestart) {
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

TEST_F(CollectorCoreTest, TenThousandCommunicatorsAreSummarized) {
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

TEST_F(CollectorCoreTest, APauseOfTheCollectorBlamesNoRank) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_);
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.now += 600 * kSecond;
  fleet.Pass(20 * kSecond);
  EXPECT_TRUE(fleet.Heard("was not running for"));
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

TEST_F(CollectorCoreTest, AFullDiskDoesNotSuppressTheVerdict) {
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
  // Space becomes available.
  fleet.options.store.reserve = 0;
  fleet.Restart(8);
  ASSERT_TRUE(fleet.PassUntil(600 * kSecond, [&] { return !fleet.core->busy(); }));
  EXPECT_THAT(Content(Incidents()[0] + "/manifest.json"), HasSubstr("\"whole\": true"));
}

TEST_F(CollectorCoreTest, AVerdictIsPrintedEvenIfNothingCanBeWritten) {
  Fleet fleet(Hung(2, 2, 2, 5), 2, out_ + "/file/below");
  std::ofstream(out_ + "/file") << "not a folder";
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  ASSERT_TRUE(fleet.PassUntil(120 * kSecond, [&] { return !fleet.printed.empty(); }));
  EXPECT_THAT(fleet.printed[0], HasSubstr("rank 5"));
  fleet.Pass(10 * kSecond);
  EXPECT_TRUE(fleet.Heard("incomplete"));
  EXPECT_FALSE(fleet.core->busy());
}

TEST_F(CollectorCoreTest, AnAgentWithAnUnsupportedProtocolGetsTheReason) {
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

TEST_F(CollectorCoreTest, InvalidMessagesAreCountedAndDropped) {
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
  // Also sends an unrequested digest, a chunk of an unknown incident, and invalid sets of ranks.
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
