// Every scenario can be created, states its truth, and is written in a readable form.
#include "tests/corpus/scenario.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "analyzer/formats/load/load.h"
#include "tests/corpus/shown.h"
#include "tests/support/files.h"

namespace lockstep::corpus {
namespace {

using Folder = support::TempFolder;

class Scenarios : public ::testing::TestWithParam<int> {};

TEST_P(Scenarios, CanBeCreatedAndStateTheTruth) {
  for (bool fr : {false, true}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      Request request;
      request.scenario = GetParam();
      request.seed = seed;
      request.fr = fr;
      Outcome outcome;
      std::string error;
      ASSERT_TRUE(Play(request, &outcome, &error)) << error;
      const Truth& truth = outcome.truth;
      EXPECT_FALSE(truth.what.empty());
      EXPECT_FALSE(truth.verdicts_allowed.empty());
      EXPECT_EQ(truth.healthy, truth.culprit_ranks.empty());
      EXPECT_TRUE(std::is_sorted(truth.culprit_ranks.begin(), truth.culprit_ranks.end()));
      for (int32_t r : truth.culprit_ranks) EXPECT_TRUE(r >= 0 && r < request.ranks);
      EXPECT_EQ(truth.identifiable, truth.needs.empty());
      if (!truth.culprit_ranks.empty()) {
        EXPECT_TRUE(
            std::any_of(truth.set_allowed.begin(), truth.set_allowed.end(), [&](const std::vector<int32_t>& set) {
              return std::includes(set.begin(), set.end(), truth.culprit_ranks.begin(), truth.culprit_ranks.end());
            }));
      }
      EXPECT_EQ(nlohmann::json::parse(TruthJson(request, outcome))["scenario"], GetParam());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Corpus, Scenarios, ::testing::Range(1, kScenarios + 1));

TEST(ScenarioTest, VariantsKeepTheTruth) {
  for (const std::string& variant : Variants()) {
    Request request;
    request.scenario = 21;
    request.ranks = 64;
    request.seed = 4;
    request.variant = variant;
    Outcome outcome;
    std::string error;
    ASSERT_TRUE(Play(request, &outcome, &error)) << variant << ": " << error;
    ASSERT_EQ(outcome.truth.culprit_ranks.size(), 1u);
    const int32_t culprit = outcome.truth.culprit_ranks[0];
    EXPECT_TRUE(variant != "rank0" || culprit == 0);
    EXPECT_TRUE(variant != "lastrank" || culprit == 63);
    EXPECT_TRUE(variant != "firstfile" || culprit < 8);
    if (variant == "twofaults") {
      ASSERT_EQ(outcome.truth.second_ranks.size(), 1u);
      EXPECT_NE(outcome.truth.second_ranks[0], culprit);
      EXPECT_TRUE(outcome.run->Struck(0) && outcome.run->Struck(1));
    }
    EXPECT_EQ(outcome.dump.missing.size(), variant == "missing10" ? 6u : variant == "missing1" ? 1u : 0u);
    EXPECT_EQ(outcome.truth.culprit_data_lost,
              outcome.dump.missing.count(culprit) + outcome.dump.cut.count(culprit) > 0);
  }
}

TEST(ScenarioTest, TheSameRequestGivesTheSameBytes) {
  Folder a, b;
  std::string error;
  for (bool fr : {false, true}) {
    Request request;
    request.scenario = 3;
    request.fr = fr;
    ASSERT_TRUE(Generate(request, a.path(), &error)) << error;
    ASSERT_TRUE(Generate(request, b.path(), &error)) << error;
    EXPECT_EQ(support::ReadFile(a.path() + "/truth.json"), support::ReadFile(b.path() + "/truth.json"));
    for (const auto& entry : std::filesystem::directory_iterator(a.path() + "/data"))
      EXPECT_EQ(support::ReadFile(entry.path().string()),
                support::ReadFile(b.path() + "/data/" + entry.path().filename().string()));
  }
}

TEST(ScenarioTest, RequestedRingDepthsAreFull) {
  Request request;
  request.scenario = 21;
  request.depth = 2048;
  Outcome outcome;
  std::string error;
  ASSERT_TRUE(Play(request, &outcome, &error)) << error;
  for (int32_t r = 0; r < request.ranks; ++r) {
    const RankView view = Capture(*outcome.run, outcome.dump.capture, r);
    EXPECT_EQ(std::count_if(view.ops.begin(), view.ops.end(), [](const OpView& op) { return !op.recent_only; }), 2048);
    EXPECT_GT(view.threads[0].overwritten, 0u);
  }
}

TEST(ScenarioTest, TwoFaultsMayHaveNoCommunicatorInCommon) {
  Request request;
  request.scenario = 28;
  request.variant = "twofaults";
  for (request.seed = 1; request.seed <= 5; ++request.seed) {
    Outcome outcome;
    std::string error;
    EXPECT_TRUE(Play(request, &outcome, &error)) << error;
  }
}

// The analysis would merge two equal faults, and the test could not tell whether the second was found.
TEST(ScenarioTest, ASecondFaultIsOfAnotherKindAndVaries) {
  const std::string stall = "waits for its data loader", stop = "is stopped (SIGSTOP)", death = "is killed by signal 9",
                    skip = "skips one call", gpu = "has a kernel on its GPU that never ends";
  const std::map<int, std::set<std::string>> wanted{
      {1, {stall, stop, death, gpu}}, {3, {stall, stop, death, gpu, skip}},
      {7, {death, gpu, skip}},        {13, {stall, stop, gpu, skip}},
      {15, {death, gpu, skip}},       {16, {stall, stop, death, skip}}};
  for (const auto& [scenario, kinds] : wanted) {
    std::set<std::string> seen;
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      Request request;
      request.scenario = scenario;
      request.variant = "twofaults";
      request.seed = seed;
      Outcome outcome;
      std::string error;
      ASSERT_TRUE(Play(request, &outcome, &error)) << scenario << " " << seed << ": " << error;
      seen.insert(outcome.truth.second_what);
    }
    EXPECT_EQ(seen, kinds) << scenario;
  }
}

// For two faults, the truth states which of them show, based on the simulator's run.
TEST(ScenarioTest, AFaultHiddenByTheOtherIsNotExpected) {
  Request request;
  request.variant = "twofaults";
  request.scenario = 7;
  request.layout = "ddp";
  int hidden = 0, shown = 0;
  for (request.seed = 1; request.seed <= 24; ++request.seed) {
    for (bool fr : {false, true}) {
      request.fr = fr;
      Outcome outcome;
      std::string error;
      ASSERT_TRUE(Play(request, &outcome, &error)) << error;
      EXPECT_TRUE(outcome.truth.identifiable);
      EXPECT_EQ(outcome.truth.second_shown, outcome.truth.second_needs.empty());
      const int32_t second = outcome.truth.second_ranks[0];
      const bool died = outcome.run->ranks()[static_cast<size_t>(second)].status == HostStatus::kDead;
      // Both ranks are stuck before the first call of the step, and all others are in that call. An outside observer
      // sees that a process has ended. A dead process has no framework dump; the others would wait in the same way if
      // its dump had only been lost.
      EXPECT_EQ(outcome.truth.second_shown, !fr || !died);
      ++(outcome.truth.second_shown ? shown : hidden);
    }
  }
  EXPECT_GT(hidden, 0);
  EXPECT_GT(shown, 0);
}

TEST(ScenarioTest, PeerRecordsIdentifyACulpritWithoutADump) {
  Request request;
  request.scenario = 7;
  request.layout = "ddp";
  request.variant = "missing1";
  int alone = 0;
  for (request.seed = 1; request.seed <= 60; ++request.seed) {
    Outcome outcome;
    std::string error;
    ASSERT_TRUE(Play(request, &outcome, &error)) << error;
    // One rank of eight left no dump. If it is the culprit, all others are in the operation that it never reached.
    EXPECT_TRUE(outcome.truth.identifiable);
    alone += outcome.truth.culprit_data_lost;
  }
  EXPECT_GT(alone, 0);
  // If the neighbor's dump is missing, too, the culprit is one of the two ranks.
  request.variant = "plain";
  request.seed = 1;
  Outcome outcome;
  std::string error;
  ASSERT_TRUE(Play(request, &outcome, &error)) << error;
  const int32_t culprit = outcome.truth.culprit_ranks[0];
  const std::set<int32_t> both{culprit, (culprit + 1) % 8};
  EXPECT_EQ(WaitedForUnseen(*outcome.run, {culprit}), std::set<int32_t>{culprit});
  EXPECT_EQ(WaitedForUnseen(*outcome.run, both), both);
  EXPECT_TRUE(WaitedForUnseen(*outcome.run, {(culprit + 1) % 8}).empty());
}

// A job continues with a different reduction or root, so a rank that waits at the capture waits for another reason.
TEST(ScenarioTest, OnlyTheCulpritsDumpShowsItsArgumentsIfTheJobContinues) {
  Request request;
  request.scenario = 5;
  request.variant = "missing10";
  int lost = 0;
  for (request.seed = 1; request.seed <= 40; ++request.seed) {
    Outcome outcome;
    std::string error;
    ASSERT_TRUE(Play(request, &outcome, &error)) << error;
    EXPECT_EQ(outcome.truth.identifiable, !outcome.truth.culprit_data_lost) << "seed " << request.seed;
    lost += outcome.truth.culprit_data_lost;
  }
  EXPECT_GT(lost, 0);
}

// A rank is slow if it is slower than others that do the same work.
TEST(ScenarioTest, ASlowGpuIsIdentifiedByPeersWithData) {
  int without = 0;
  for (const bool fr : {false, true}) {
    Request request;
    request.scenario = 33;
    request.variant = "missing10";
    request.marks = Marks::kTimed;
    request.fr = fr;
    for (request.seed = 1; request.seed <= 40; ++request.seed) {
      Outcome outcome;
      std::string error;
      ASSERT_TRUE(Play(request, &outcome, &error)) << error;
      const int32_t culprit = outcome.truth.culprit_ranks[0];
      int siblings = 0;
      for (int32_t r = 0; r < outcome.job.ranks; ++r) {
        siblings += r != culprit && outcome.dump.missing.count(r) == 0 &&
                    outcome.job.programs[static_cast<size_t>(r)] == outcome.job.programs[static_cast<size_t>(culprit)];
      }
      const bool lost = outcome.dump.missing.count(culprit) > 0;
      without += siblings == 0 || lost;
      EXPECT_FALSE(outcome.truth.identifiable && (siblings == 0 || lost)) << "seed " << request.seed;
    }
  }
  EXPECT_GT(without, 0);
}

// The call's arguments are only in the culprit's own dump, which is truncated. All ranks are in that call.
TEST(ScenarioTest, ACulpritInsideTheCallWithATruncatedDumpIsNotIdentifiable) {
  int came = 0;
  Request request;
  request.scenario = 2;
  request.variant = "cut";
  request.layout = "ddp";
  request.fr = true;
  for (request.seed = 1; request.seed <= 60; ++request.seed) {
    Outcome outcome;
    std::string error;
    ASSERT_TRUE(Play(request, &outcome, &error)) << error;
    const auto& culprits = outcome.truth.culprit_ranks;
    if (outcome.dump.cut.count(culprits[0]) == 0) {
      EXPECT_TRUE(outcome.truth.identifiable) << "seed " << request.seed;
      continue;
    }
    bool waited_for = false;
    for (const Standing& standing : outcome.run->StandingStill())
      waited_for |= std::count(standing.absent.begin(), standing.absent.end(), culprits[0]) > 0;
    if (waited_for) continue;
    ++came;
    EXPECT_FALSE(outcome.truth.identifiable) << "seed " << request.seed;
    const auto& kinds = outcome.truth.kinds_allowed;
    EXPECT_NE(std::find(kinds.begin(), kinds.end(), "COLLECTIVE_STUCK"), kinds.end()) << "seed " << request.seed;
  }
  EXPECT_GT(came, 0);
}

// Culprits without data have no record, so naming the others is an answer.
TEST(ScenarioTest, NamingTheHostsCulpritsWithDataCountsAsRight) {
  Request request;
  request.scenario = 8;
  request.ranks = 64;
  request.variant = "missing10";
  request.fr = true;
  int some = 0;
  for (request.seed = 1; request.seed <= 30; ++request.seed) {
    Outcome outcome;
    std::string error;
    ASSERT_TRUE(Play(request, &outcome, &error)) << error;
    std::vector<int32_t> seen;
    for (int32_t r : outcome.truth.culprit_ranks) {
      if (outcome.dump.missing.count(r) == 0) seen.push_back(r);
    }
    const auto& sets = outcome.truth.set_allowed;
    const bool part = !seen.empty() && seen.size() < outcome.truth.culprit_ranks.size() && !outcome.truth.identifiable;
    EXPECT_EQ(std::find(sets.begin(), sets.end(), seen) != sets.end(), part || seen == outcome.truth.culprit_ranks)
        << "seed " << request.seed;
    some += part;
  }
  EXPECT_GT(some, 0);
}

TEST(ScenarioTest, NamingTheRanksStuckAtALostSwitchCountsAsRight) {
  Request request;
  request.scenario = 20;
  request.ranks = 64;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    request.seed = seed;
    Outcome outcome;
    std::string error;
    ASSERT_TRUE(Play(request, &outcome, &error)) << error;
    std::set<int32_t> inside;
    for (const Standing& standing : outcome.run->StandingStill()) {
      if (standing.absent.empty()) inside.insert(standing.inside.begin(), standing.inside.end());
    }
    ASSERT_FALSE(inside.empty()) << "seed " << seed << ": no rank is stuck at the switch";
    EXPECT_EQ(std::vector<int32_t>(inside.begin(), inside.end()), outcome.truth.set_allowed.back());
  }
}

TEST(ScenarioTest, RanksWithoutDataThatOthersWaitForAreListed) {
  Request request;
  request.scenario = 18;
  request.variant = "missing1";
  size_t told = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    request.seed = seed;
    Outcome outcome;
    std::string error;
    ASSERT_TRUE(Play(request, &outcome, &error)) << error;
    for (int32_t r : outcome.truth.unseen_ranks) EXPECT_TRUE(outcome.dump.missing.count(r) > 0);
    told += !outcome.truth.unseen_ranks.empty();
    EXPECT_FALSE(outcome.truth.identifiable);
  }
  EXPECT_GT(told, 0u);
}

// The writers follow the pages that describe the formats. The analyzer's loaders must read the same numbers.
TEST(WriterTest, OwnDumpsAreReadWithEqualNumbers) {
  for (bool shuffled : {false, true}) {
    for (int scenario : {6, 21, 26, 37}) {
      Folder folder;
      Request request;
      request.scenario = scenario;
      request.variant = shuffled ? "shuffled" : "plain";
      request.marks = Marks::kTimed;
      Outcome outcome;
      std::string error;
      ASSERT_TRUE(Play(request, &outcome, &error)) << error;
      ASSERT_TRUE(WriteLsdFolder(*outcome.run, outcome.dump, folder.path(), &error)) << error;
      const absl::StatusOr<Bundle> bundle = LoadPaths({folder.path()});
      ASSERT_TRUE(bundle.ok()) << bundle.status();
      for (const Problem& problem : bundle->problems) ADD_FAILURE() << problem.path << ": " << problem.text;
      ASSERT_EQ(bundle->ranks.size(), 8u);
      EXPECT_EQ(bundle->ranks_expected, 8);
      for (const Rank& rank : bundle->ranks) {
        const RankView view = Capture(*outcome.run, outcome.dump.capture, rank.rank);
        ASSERT_EQ(rank.ops.size(), view.ops.size());
        ASSERT_EQ(rank.memberships.size(), view.comms.size());
        EXPECT_FALSE(rank.damaged);
        const Host& host = outcome.job.hosts[static_cast<size_t>(outcome.job.HostOf(rank.rank))];
        EXPECT_EQ(rank.host, host.name);
        ASSERT_EQ(rank.graphs.size(), scenario == 37 ? 1u : 0u);
        if (!rank.graphs.empty()) {
          EXPECT_EQ(rank.graphs[0].launches, view.graph.launches);
        }
        for (const Membership& m : rank.memberships) {
          const size_t i = m.ring_index;
          ASSERT_LT(i, view.comms.size());
          EXPECT_EQ(m.issued, view.comms[i].issued == 0 ? kNone : view.comms[i].issued);
          EXPECT_EQ(m.member_rank, view.comms[i].member_rank);
          const Comm& comm = outcome.job.comms[static_cast<size_t>(view.comms[i].comm)];
          EXPECT_EQ(bundle->comms[m.comm].members, comm.members);
        }
        if (shuffled) continue;
        for (size_t i = 0; i < view.ops.size(); ++i) {
          const Op& op = rank.ops[i];
          EXPECT_EQ(op.kind, view.ops[i].kind);
          EXPECT_EQ(op.seq, view.ops[i].stage == Stage::kCaptured ? kUnknown : int64_t{view.ops[i].seq});
          EXPECT_EQ(op.replayed, view.ops[i].replay != 0);
          if (const lockstep::Replay* replay = op.replayed ? &rank.replays.at(ReplayOf(op)) : nullptr;
              replay != nullptr) {
            EXPECT_EQ(replay->number, view.ops[i].replay);
            EXPECT_EQ(PlaceInGraph(op), view.ops[i].place);
            EXPECT_EQ(op.ticket, view.ops[i].replay);
          }
          EXPECT_EQ(static_cast<uint8_t>(op.state), static_cast<uint8_t>(view.ops[i].stage));
          EXPECT_EQ(op.enter_ns, host.Mono(view.ops[i].enter));
          EXPECT_EQ(op.completed_ns, view.ops[i].finish == kNever ? 0 : host.Mono(view.ops[i].finish));
          EXPECT_EQ(op.count, static_cast<int64_t>(view.ops[i].count));
        }
      }
    }
  }
}

TEST(WriterTest, FlightRecorderDumpsWithoutStartEventsHaveNoStarts) {
  for (const Marks marks : {Marks::kDone, Marks::kFull}) {
    Folder folder;
    Request request;
    request.scenario = 16;
    request.fr = true;
    request.marks = marks;
    Outcome outcome;
    std::string error;
    ASSERT_TRUE(Play(request, &outcome, &error)) << error;
    ASSERT_TRUE(WriteFlightRecorderFolder(*outcome.run, outcome.dump, folder.path(), &error)) << error;
    const absl::StatusOr<Bundle> bundle = LoadPaths({folder.path()});
    ASSERT_TRUE(bundle.ok()) << bundle.status();
    for (const Rank& rank : bundle->ranks) EXPECT_EQ(rank.start_recorded, marks == Marks::kFull);
  }
}

// Captured operations have no sequence number. Each launch gives its operations the next numbers, and they start and
// end with the launch.
TEST(ScenarioTest, ReplaysAreNumberedAtTheirLaunch) {
  Request request;
  request.scenario = 37;
  for (request.seed = 1; request.seed <= 3; ++request.seed) {
    Outcome outcome;
    std::string error;
    ASSERT_TRUE(Play(request, &outcome, &error)) << error;
    EXPECT_TRUE(outcome.truth.identifiable);
    EXPECT_EQ(outcome.truth.healthy, request.seed % 3 != 2);
    std::map<int32_t, uint32_t> launches;
    for (int32_t r = 0; r < request.ranks; ++r) {
      const RankView view = Capture(*outcome.run, outcome.dump.capture, r);
      launches[r] = view.graph.launches;
      std::map<Slot, uint32_t> next;
      uint32_t captured = 0, replayed = 0;
      for (const OpView& op : view.ops) {
        if (op.instr->act != Act::kCall || op.recent_only) continue;
        if (op.stage == Stage::kCaptured) {
          EXPECT_EQ(op.seq, 0u);
          ++captured;
          continue;
        }
        EXPECT_EQ(op.seq, ++next[op.slot]);
        replayed += op.replay != 0;
        EXPECT_EQ(op.finish != kNever && op.replay != 0, op.replay != 0 && op.replay <= view.graph.completed);
      }
      EXPECT_EQ(captured, view.graph.operations);
      EXPECT_EQ(replayed, captured * view.graph.launches);
      for (const CommView& c : view.comms) EXPECT_EQ(c.issued, next[c.slot]);
    }
    if (outcome.truth.healthy) continue;
    for (const auto& [r, count] : launches) EXPECT_LE(launches[outcome.truth.culprit_ranks[0]], count);
  }
}

// Python's own pickle module must read the intended entries, states and groups from the dumps.
TEST(WriterTest, FlightRecorderDumpsAreReadByPython) {
  if (std::string(LOCKSTEP_PYTHON).empty()) GTEST_SKIP() << "no Python 3 was found when this was built";
  Folder folder;
  Request request;
  request.scenario = 21;
  request.fr = true;
  Outcome outcome;
  std::string error;
  ASSERT_TRUE(Play(request, &outcome, &error)) << error;
  ASSERT_TRUE(WriteFlightRecorderFolder(*outcome.run, outcome.dump, folder.path(), &error)) << error;
  const std::string script = folder.path() + "/read.py", result = folder.path() + "/result.json";
  std::ofstream(script) << R"(
import json, pickle, sys
out = []
for rank in range(8):
    with open(sys.argv[1] + '/nccl_trace_rank_%d' % rank, 'rb') as file:
        dump = pickle.load(file)
    frames = [id(frame) for entry in dump['entries'] for frame in entry['frames']]
    states = {}
    for entry in dump['entries']:
        states[entry['state']] = states.get(entry['state'], 0) + 1
        assert isinstance(entry['process_group'], tuple) and len(entry['process_group']) == 2
        assert entry['process_group'][0] in dump['pg_config']
        assert str(entry['pg_id']) in dump['pg_status']
        assert entry['time_created_ns'] > 10**18
    ids = [entry['record_id'] for entry in dump['entries']]
    assert ids == sorted(ids) and len(set(ids)) == len(ids)
    out.append({'entries': len(dump['entries']), 'states': states, 'shared': len(set(frames)) < len(frames),
                'groups': {name: group['ranks'] for name, group in dump['pg_config'].items()}})
json.dump(out, open(sys.argv[2], 'w'))
)";
  const std::string command =
      std::string(LOCKSTEP_PYTHON) + " '" + script + "' '" + folder.path() + "' '" + result + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const nlohmann::json read = nlohmann::json::parse(support::ReadFile(result));
  std::filesystem::remove(script);
  std::filesystem::remove(result);
  const absl::StatusOr<Bundle> bundle = LoadPaths({folder.path()});
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  ASSERT_EQ(bundle->ranks.size(), 8u);
  for (size_t r = 0; r < 8; ++r) {
    EXPECT_EQ(read[r]["entries"], bundle->ranks[r].ops.size());
    EXPECT_TRUE(read[r]["shared"]);
    EXPECT_EQ(read[r]["groups"]["0"], "[0, 1, 2, 3, 4, 5, 6, 7]");
    EXPECT_GT(read[r]["states"].value("completed", 0), 10);
  }
}

}  // namespace
}  // namespace lockstep::corpus
