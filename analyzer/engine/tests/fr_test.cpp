// Tests verdicts on PyTorch Flight Recorder dumps: the test cases of PyTorch's analyzer, cases that it gets wrong,
// and recorded traces of real jobs with known faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/engine.h"
#include "analyzer/formats/fr/loader.h"
#include "analyzer/testing/findings.h"
#include "analyzer/testing/fr_dumps.h"
#include "analyzer/testing/traces.h"

namespace lockstep {
namespace {

using lockstep::testing::ExpectOnly;

using fr_test::FrDump;
using fr_test::FrEntry;
using fr_test::FrGroup;
using fr_test::Sizes;

const Sizes k4x4 = {{4, 4}}, k5x4 = {{5, 4}}, k5x5 = {{5, 5}}, kEmpty = {{}};

FrEntry Entry(std::string op, Sizes in = k4x4, Sizes out = k4x4, int64_t seq = 1, std::string state = "scheduled") {
  FrEntry e;
  e.op = op.find(':') == std::string::npos ? "nccl:" + op : op;
  e.input = std::move(in);
  e.output = std::move(out);
  e.seq = seq;
  e.state = std::move(state);
  e.input_dtypes = e.output_dtypes = {"float32"};
  return e;
}

FrEntry Done(std::string op, Sizes in = k4x4, Sizes out = k4x4, int64_t seq = 0) {
  return Entry(std::move(op), std::move(in), std::move(out), seq, "completed");
}

Bundle LoadDumps(const std::vector<FrDump>& dumps) { return fr_test::LoadDumps({dumps.begin(), dumps.end()}); }

// Dumps without status numbers, because the cases have none.
FrDump Dump(std::vector<FrEntry> entries) {
  FrDump d;
  d.pg_status = false;
  d.entries = std::move(entries);
  return d;
}

Verdict Pair(std::vector<FrEntry> a, std::vector<FrEntry> b) {
  return Analyze(LoadDumps({Dump(std::move(a)), Dump(std::move(b))}));
}

// Expects no finding. Such dumps do not show whether the job is still running.
void ExpectNothing(const Verdict& v) {
  EXPECT_EQ(v.verdict(), VERDICT_INCOMPLETE_DATA) << v.DebugString();
  EXPECT_EQ(v.findings_size(), 0);
}

void ExpectFirst(const Verdict& v, FindingKind kind, std::vector<int32_t> ranks) {
  ASSERT_GE(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(FindingKind_Name(v.findings(0).kind()), FindingKind_Name(kind)) << v.DebugString();
  const auto& got = v.findings(0).culprit_ranks();
  EXPECT_EQ(std::vector<int32_t>(got.begin(), got.end()), ranks) << v.DebugString();
}

TEST(FlightRecorderPairs, Row1TheSameCallIsNotReported) {
  ExpectNothing(Pair({Entry("all_reduce")}, {Entry("all_reduce")}));
}

TEST(FlightRecorderPairs, Row2TypeTakesPrecedenceOverSize) {
  ExpectOnly(Pair({Entry("all_reduce")}, {Entry("all_gather")}), MISMATCH_KIND, {0, 1});
}

TEST(FlightRecorderPairs, Row3AllToAllIsNotJudgedBySizes) {
  ExpectNothing(Pair({Entry("all_to_all")}, {Entry("all_to_all")}));
}

TEST(FlightRecorderPairs, Row4DifferentInputSizesAreReported) {
  ExpectOnly(Pair({Entry("all_reduce")}, {Entry("all_reduce", k5x4)}), MISMATCH_COUNT, {0, 1});
}

TEST(FlightRecorderPairs, Row5DifferentOutputSizesAreReported) {
  ExpectOnly(Pair({Entry("all_reduce")}, {Entry("all_reduce", k4x4, k5x4)}), MISMATCH_COUNT, {0, 1});
}

TEST(FlightRecorderPairs, Row6ACallThatContradictsItselfIsReported) {
  const FrEntry e = Entry("all_reduce", k4x4, k5x4, 2);
  ExpectOnly(Pair({e}, {e}), MISMATCH_COUNT, {0, 1});
}

TEST(FlightRecorderPairs, Row7AGpuThatDidNotCompleteIsNamed) {
  ExpectOnly(Pair({Entry("all_reduce")}, {Entry("all_reduce", k4x4, k4x4, 1, "completed")}), GPU_STALL, {0});
}

TEST(FlightRecorderPairs, Row8DifferentDatatypesAreReported) {
  FrEntry half = Done("all_reduce");
  half.output_dtypes = {"float16"};
  ExpectOnly(Pair({half}, {Done("all_reduce")}), MISMATCH_DATATYPE, {0, 1});
}

TEST(FlightRecorderPairs, Row9And10RootAndLeafOfAGatherMatch) {
  const FrEntry root = Done("gather", k4x4, {{4, 4}, {4, 4}});
  FrEntry leaf = Done("gather", k4x4, kEmpty);
  leaf.output_dtypes = {""};
  ExpectNothing(Pair({root}, {leaf}));
  leaf.output = k4x4;
  ExpectNothing(Pair({root}, {leaf}));
}

TEST(FlightRecorderPairs, Row11EveryCollectiveMatchesOnlyItself) {
  for (const char* name :
       {"broadcast", "_broadcast_oop", "reduce", "_reduce_oop", "all_gather", "all_reduce", "_all_gather_base",
        "all_gather_into_tensor_coalesced", "reduce_scatter_tensor_coalesced", "_reduce_scatter_base", "gather",
        "scatter", "all_to_all", "all_reduce_barrier", "allreduce_coalesced", "ALLGATHER_coalesced",
        "REDUCE_SCATTER_coalesced", "reduce_scatter", "barrier"}) {
    SCOPED_TRACE(name);
    const std::string text = name;
    Sizes out = k4x4;
    if (text.find("reduce_scatter") != std::string::npos || text.find("REDUCE_SCATTER") == 0) out = {{8}};
    if (text.find("all_gather") != std::string::npos || text.find("ALLGATHER") == 0) out = {{32}};
    const FrEntry e = Entry(name, k4x4, out);
    ExpectNothing(Pair({e}, {e}));
    // A call of another kind, so that it differs from every other call.
    const char* other = text.find("all_to_all") == 0 ? "all_reduce" : "all_to_all";
    EXPECT_EQ(Pair({e}, {Entry(other)}).findings(0).kind(), MISMATCH_KIND);
  }
}

TEST(FlightRecorderPairs, Rows12To15EveryBackendIsRead) {
  for (const char* backend : {"nccl", "ncclx", "gloo", "xccl"}) {
    SCOPED_TRACE(backend);
    const FrEntry e = Done(std::string(backend) + ":all_reduce");
    const Bundle b = LoadDumps({Dump({e}), Dump({e})});
    ASSERT_EQ(b.ranks.size(), 2u);
    ASSERT_EQ(b.ranks[0].ops.size(), 1u);
    EXPECT_EQ(b.ranks[0].ops[0].kind, ring::CallKind::kAllReduce);
    ExpectNothing(Analyze(b));
  }
}

TEST(FlightRecorderPairs, Row16UnknownBackendIsAnErrorThatNamesIt) {
  const FrEntry e = Done("unknown_backend:all_reduce");
  const Verdict v = Pair({e}, {e});
  EXPECT_EQ(v.verdict(), VERDICT_INCOMPLETE_DATA);
  ASSERT_GE(v.problems_size(), 2);
  EXPECT_NE(v.problems(0).text().find("unknown_backend"), std::string::npos);
}

TEST(FlightRecorderPairs, Row17FindingsStateTheDifference) {
  const Verdict v = Pair({Entry("all_reduce")}, {Entry("all_reduce", k5x4)});
  ASSERT_EQ(v.findings_size(), 1);
  EXPECT_NE(v.findings(0).summary().find("20 input elements"), std::string::npos) << v.DebugString();
  EXPECT_NE(v.findings(0).summary().find("16 input elements"), std::string::npos);
  EXPECT_EQ(v.DebugString(), Pair({Entry("all_reduce")}, {Entry("all_reduce", k5x4)}).DebugString());
}

// Rows 18 to 23: group "0" contains both ranks, group "1" each rank alone.
Verdict TwoGroups(std::vector<FrEntry> a, std::vector<FrEntry> b) {
  std::vector<FrDump> dumps;
  for (int rank = 0; rank < 2; ++rank) {
    FrDump d = Dump(rank == 0 ? a : b);
    FrGroup alone;
    alone.name = "1";
    alone.desc = "alone";
    alone.ranks = {rank};
    alone.pg_id = 1;
    d.groups.push_back(alone);
    dumps.push_back(d);
  }
  return Analyze(LoadDumps(dumps));
}

TEST(FlightRecorderJobs, Row18EqualNamesWithDifferentMembersAreTwoGroups) {
  FrEntry own = Done("all_reduce", k5x5, k5x5);
  own.pg = "1";
  own.desc = "alone";
  own.pg_id = 1;
  ExpectNothing(TwoGroups({Done("all_reduce"), own}, {Done("all_reduce"), own}));
}

TEST(FlightRecorderJobs, Row19ACoalescedAllReduceIsNotReported) {
  ExpectNothing(TwoGroups({Done("allreduce_coalesced")}, {Done("allreduce_coalesced")}));
}

TEST(FlightRecorderJobs, Row20BroadcastsInOneBatchAreNotReported) {
  const std::vector<FrEntry> batch = {Done("broadcast"), Done("broadcast"), Done("coalesced", kEmpty, kEmpty)};
  ExpectNothing(TwoGroups(batch, batch));
}

TEST(FlightRecorderJobs, Row21ADifferentSecondMemberOfABatchIsReported) {
  const Verdict v = TwoGroups(
      {Done("_broadcast_oop"), Done("_broadcast_oop", k5x5, k5x5), Done("ALLGATHER_coalesced", kEmpty, kEmpty)},
      {Done("_broadcast_oop"), Done("_broadcast_oop"), Done("ALLGATHER_coalesced", kEmpty, kEmpty)});
  ExpectOnly(v, MISMATCH_COUNT, {0, 1});
  EXPECT_EQ(v.findings(0).operation(), "_broadcast_oop");
}

TEST(FlightRecorderJobs, Row22ReducesInOneBatchAreNotReported) {
  const std::vector<FrEntry> batch = {Done("_reduce_oop"), Done("_reduce_oop"),
                                      Done("REDUCE_SCATTER_coalesced", kEmpty, kEmpty)};
  ExpectNothing(TwoGroups(batch, batch));
}

TEST(FlightRecorderJobs, Row23ARankThatNeverJoinsIsAFailure) {
  const Verdict v = TwoGroups({Done("all_reduce")}, {Done("all_reduce"), Done("_reduce_oop"), Done("_reduce_oop"),
                                                     Done("REDUCE_SCATTER_coalesced", kEmpty, kEmpty)});
  ExpectOnly(v, RANK_NOT_ARRIVED, {0});
  EXPECT_EQ(v.verdict(), VERDICT_HUNG);
  EXPECT_EQ(v.findings(0).operation(), "_reduce_oop");
}

// Ranks 0-3 train, and ranks 4-7 produce their data in pairs. Rank 0 sends weights to ranks 4-7. Rank 4 is stuck.
TEST(FlightRecorderJobs, APartOfTheJobThatWaitsOutsideIsNotNamedBesideTheCause) {
  const auto add = [](const std::string& name, const std::vector<int32_t>& ranks, int done, bool waits, FrDump* dump) {
    const auto id = static_cast<int64_t>(dump->groups.size());
    FrGroup group{.name = name, .desc = name, .ranks = ranks, .pg_id = id, .enqueued = done + waits, .completed = done};
    for (int64_t seq = 1; seq <= group.enqueued; ++seq) {
      FrEntry entry = Entry("all_reduce", k4x4, k4x4, seq, seq <= done ? "completed" : "scheduled");
      entry.pg = entry.desc = name;
      entry.pg_id = id;
      dump->entries.push_back(entry);
    }
    dump->groups.push_back(std::move(group));
  };
  std::vector<std::optional<FrDump>> dumps;
  for (int rank = 0; rank < 8; ++rank) {
    FrDump dump;
    dump.groups.clear();
    if (rank < 4) add("trainer", {0, 1, 2, 3}, 20, false, &dump);
    if (rank == 4 || rank == 5) add("pair A", {4, 5}, 30, rank == 5, &dump);
    if (rank == 6 || rank == 7) add("pair B", {6, 7}, 31, false, &dump);
    if (rank == 0 || rank >= 4) add("weights", {0, 4, 5, 6, 7}, 5, rank >= 6, &dump);
    dumps.push_back(std::move(dump));
  }
  const Verdict v = Analyze(fr_test::LoadDumps(dumps));
  ASSERT_GE(v.findings_size(), 1);
  EXPECT_THAT(v.findings(0).culprit_ranks(), ::testing::ElementsAre(4));
}

// A job of `n` ranks in one group, with `ops` all-reduces. The last one is in flight. `change` adds each rank's
// fault.
std::vector<FrDump> World(int n, int ops, const std::function<void(int, std::vector<FrEntry>*)>& change,
                          const std::string& last_state = "scheduled") {
  std::vector<FrDump> dumps;
  for (int r = 0; r < n; ++r) {
    std::vector<FrEntry> entries;
    for (int s = 1; s <= ops; ++s) {
      entries.push_back(Entry("all_reduce", k4x4, k4x4, s, s < ops ? "completed" : last_state));
    }
    change(r, &entries);
    FrDump d;
    d.entries = entries;
    d.groups[0].ranks.clear();
    for (int m = 0; m < n; ++m) d.groups[0].ranks.push_back(m);
    for (const FrEntry& e : entries) {
      d.groups[0].enqueued = std::max(d.groups[0].enqueued, e.seq);
      if (e.state == "completed") d.groups[0].completed = std::max(d.groups[0].completed, e.seq);
    }
    dumps.push_back(d);
  }
  return dumps;
}

TEST(FlightRecorderBeyond, AFaultInTheFirstFileBlamesOnlyThatRank) {
  ExpectOnly(Analyze(LoadDumps(World(8, 5,
                                     [](int r, auto* e) {
                                       if (r == 0) e->pop_back();
                                     }))),
             RANK_NOT_ARRIVED, {0});
  ExpectOnly(Analyze(LoadDumps(World(8, 5,
                                     [](int r, auto* e) {
                                       if (r == 0) e->back() = Entry("all_gather", k4x4, {{128}}, 5);
                                     }))),
             MISMATCH_KIND, {0});
  ExpectOnly(Analyze(LoadDumps(World(
                 8, 5,
                 [](int r, auto* e) {
                   if (r == 0) (*e)[2] = Done("all_reduce", k5x4, k5x4, 3);
                 },
                 "completed"))),
             MISMATCH_COUNT, {0});
}

TEST(FlightRecorderBeyond, SkewedRecordNumbersDoNotMatter) {
  ExpectOnly(Analyze(LoadDumps(World(8, 9,
                                     [](int r, auto* e) {
                                       for (size_t i = 0; i < e->size(); ++i)
                                         (*e)[i].record_id = static_cast<int64_t>(i) + 3 * r;
                                       if (r == 6) e->pop_back();
                                     }))),
             RANK_NOT_ARRIVED, {6});
}

std::vector<FrEntry> Exchange(int me, int peer, int batches) {
  std::vector<FrEntry> entries;
  for (int b = 1; b <= batches; ++b) {
    for (const char* side : {"send", "recv"}) {
      const bool send = side == std::string("send");
      FrEntry e = Entry(std::string(side) + " " + std::to_string(me) + (send ? "->" : "<-") + std::to_string(peer));
      e.is_p2p = true;
      e.seq = 0;
      e.p2p_seq = b;
      entries.push_back(e);
    }
    FrEntry end = Done("coalesced", kEmpty, kEmpty);
    end.is_p2p = true;
    end.p2p_seq = b;
    entries.push_back(end);
  }
  return entries;
}

TEST(FlightRecorderBeyond, BidirectionalBatchesAreHealthy) {
  ExpectNothing(Pair(Exchange(0, 1, 3), Exchange(1, 0, 3)));
}

TEST(FlightRecorderBeyond, AMissingRankBesideBidirectionalBatchesIsNamed) {
  std::vector<FrEntry> waiting = Exchange(0, 1, 3);
  waiting.push_back(Entry("all_reduce"));
  ExpectOnly(Pair(waiting, Exchange(1, 0, 3)), RANK_NOT_ARRIVED, {1});
}

TEST(FlightRecorderBeyond, TheCulpritIsNamedThoughAnotherDumpIsMissing) {
  std::vector<FrDump> dumps = World(8, 5, [](int r, auto* e) {
    if (r == 6) e->pop_back();
  });
  // Rank 7's dump is missing. The culprit is still named, and rank 7 is not blamed.
  dumps.pop_back();
  const Verdict v = Analyze(LoadDumps(dumps));
  ExpectFirst(v, RANK_NOT_ARRIVED, {6});
  EXPECT_EQ(v.ranks_expected(), 8);
  EXPECT_EQ(v.ranks_read(), 7);
}

// No list shows the members of a group. One member of this group and one of the parallel group left no dump, so it is
// not certain that all members arrived.
TEST(FlightRecorderBeyond, MembersOfAnUnlistedGroupAreUnknownIfDumpsAreMissing) {
  std::vector<std::optional<FrDump>> dumps;
  for (int rank = 0; rank < 8; rank++) {
    FrDump d;
    d.AsVersion("2.10");
    d.groups = {{.name = "", .desc = "", .pg_id = 0, .enqueued = 5, .completed = 5, .ranks_text = "[0, 1, 2, 3]"},
                {.pg_id = 1, .enqueued = 3, .completed = rank % 2 == 1 ? 2 : 3, .in_config = false}};
    FrEntry last{.op = "gloo:all_reduce",
                 .seq = 3,
                 .pg = std::to_string(1 + rank % 2),
                 .desc = "DATA",
                 .pg_id = 1,
                 .retired = rank % 2 == 0};
    d.entries = {{.op = "gloo:broadcast", .seq = 5, .retired = true}, last};
    dumps.push_back(std::move(d));
  }
  auto stuck = [&] {
    const Verdict v = Analyze(fr_test::LoadDumps(dumps));
    EXPECT_GE(v.findings_size(), 1) << v.DebugString();
    return v.findings_size() == 0 ? Finding() : v.findings(0);
  };
  EXPECT_EQ(stuck().kind(), COLLECTIVE_STUCK);
  EXPECT_FALSE(stuck().hypothesis());
  dumps[0].reset();
  dumps[5].reset();
  const Finding finding = stuck();
  EXPECT_EQ(finding.kind(), COLLECTIVE_STUCK);
  EXPECT_TRUE(finding.hypothesis());
  EXPECT_LT(finding.confidence(), 0.5);
  EXPECT_EQ(finding.summary(), "all members that left data called all_reduce #3 on DATA, and none finishes it");
  ASSERT_GE(finding.alternatives_size(), 1);
  EXPECT_EQ(finding.alternatives(0), "one of ranks 0, 5, which left no data, is also a member and never arrived");
}

// Stages 0 (which left no dump), 1 and 2. Stage 1's second batch waits for stage 0, but its send has arrived. Stage 2
// therefore waits for the send of stage 1's third batch, not for the network.
TEST(FlightRecorderBeyond, SendsMatchReceivesByOrderWhateverTheirNumbers) {
  auto batch = [](FrDump* dump, int number, std::vector<std::string> ops, const std::string& state) {
    ops.push_back("nccl:coalesced");
    for (const std::string& op : ops) {
      FrEntry e{.op = op,
                .seq = 0,
                .desc = "PP",
                .state = op == "nccl:coalesced" ? state : "scheduled",
                .is_p2p = true,
                .p2p_seq = number};
      e.retired = e.state == "completed";
      dump->entries.push_back(e);
    }
  };
  FrDump middle, last;
  batch(&middle, 1, {"nccl:recv 1<-0"}, "completed");
  batch(&middle, 2, {"nccl:recv 1<-0", "nccl:send 1->2"}, "started");
  batch(&middle, 3, {"nccl:recv 1<-0", "nccl:send 1->2"}, "scheduled");
  batch(&last, 1, {"nccl:recv 2<-1"}, "completed");
  batch(&last, 2, {"nccl:recv 2<-1"}, "started");
  middle.groups = {{.name = "0", .desc = "PP", .ranks = {0, 1, 2}, .enqueued = 3, .started = 2, .completed = 1}};
  last.groups = {{.name = "0", .desc = "PP", .ranks = {0, 1, 2}, .enqueued = 2, .started = 2, .completed = 1}};
  ExpectOnly(Analyze(fr_test::LoadDumps({std::nullopt, middle, last})), RANK_NO_DATA, {0});
  // Without the first records, the matching of sends and receives is only an assumption, and weaker than a rank
  // without data.
  middle.entries.erase(middle.entries.begin(), middle.entries.begin() + 2);
  last.entries.erase(last.entries.begin(), last.entries.begin() + 2);
  for (FrDump* dump : {&middle, &last}) {
    for (size_t i = 0; i < dump->entries.size(); ++i) dump->entries[i].record_id = static_cast<int64_t>(i) + 2;
  }
  ExpectOnly(Analyze(fr_test::LoadDumps({std::nullopt, middle, last})), RANK_NO_DATA, {0});
}

TEST(FlightRecorderBeyond, TheCulpritIsNamedIfAllOthersHaveStarted) {
  ExpectOnly(Analyze(LoadDumps(World(
                 8, 5,
                 [](int r, auto* e) {
                   if (r == 6) e->pop_back();
                 },
                 "started"))),
             RANK_NOT_ARRIVED, {6});
}

// Returns the verdict on a job of two ranks that hangs in its fifth call, which rank 0 may have finished.
Verdict HangsIn(const std::string& op, bool finished_on_first) {
  std::vector<FrDump> dumps = World(2, 5, [&](int r, auto* entries) {
    FrEntry& last = entries->back();
    last.op = "nccl:" + op;
    if (r > 0 || !finished_on_first) return;
    last.state = "completed";
    last.retired = true;
    entries->push_back(Entry("all_reduce", k4x4, k4x4, 6));
  });
  return Analyze(LoadDumps(dumps));
}

// In a call with a root, some members leave before others. A rank that finished is not stuck.
TEST(FlightRecorderBeyond, OnlyRanksStillInARootedCallAreNamed) {
  const Verdict v = HangsIn("broadcast", true);
  ExpectOnly(v, COLLECTIVE_STUCK, {1});
  EXPECT_EQ(v.findings(0).reason(), REASON_SOME_FINISHED);
  EXPECT_THAT(v.findings(0).summary(), ::testing::HasSubstr("which rank 0 finished"));
}

TEST(FlightRecorderBeyond, UnrecordedRootsMayDiffer) {
  const auto roots_may_differ = [](const Verdict& v) {
    const auto& rivals = v.findings(0).rivals();
    return std::any_of(rivals.begin(), rivals.end(), [](const Rival& r) { return r.kind() == Rival::ROOTS_DIFFER; });
  };
  for (const char* op : {"broadcast", "all_reduce"}) {
    const Verdict v = HangsIn(op, false);
    ExpectOnly(v, COLLECTIVE_STUCK, {0, 1});
    ASSERT_EQ(v.findings_size(), 1);
    EXPECT_EQ(roots_may_differ(v), op == std::string("broadcast"));
  }
}

TEST(FlightRecorderBeyond, OneRankWithUnmatchedSplitSizesIsNamed) {
  std::vector<FrDump> dumps;
  for (int rank = 0; rank < 4; ++rank) {
    dumps.push_back(Dump({Entry("all_to_all", {{400}}, {{rank == 2 ? 700 : 400}})}));
    dumps.back().groups[0].ranks = {0, 1, 2, 3};
  }
  ExpectOnly(Analyze(LoadDumps(dumps)), MISMATCH_SPLITS, {2});
  // Uneven sizes that match are allowed.
  dumps[1].entries[0].output = {{100}};
  EXPECT_EQ(Analyze(LoadDumps(dumps)).findings_size(), 0);
}

// Backends without names list only the newest group. Its size is the job's minimum number of ranks.
TEST(FlightRecorderBeyond, TheSizeOfANamelessGroupBoundsTheNumberOfRanks) {
  std::vector<FrDump> dumps;
  for (int rank = 0; rank < 3; ++rank) {
    dumps.push_back(Dump({Entry("gloo:all_reduce")}));
    dumps.back().groups[0].name = dumps.back().groups[0].desc = "";
    dumps.back().groups[0].ranks = {0, 1, 2, 3};
  }
  EXPECT_EQ(Analyze(LoadDumps(dumps)).ranks_expected(), 4);
}

// The sizes of the newest groups also show a rank that created a different group than its peers, and one that did not
// get as far.
TEST(FlightRecorderBeyond, NewestGroupsOfABackendWithoutNamesAreCompared) {
  const auto job = [](int odd, int size) {
    std::vector<FrDump> dumps;
    for (int rank = 0; rank < 8; ++rank) {
      dumps.push_back(Dump({}));
      dumps.back().groups[0].name = dumps.back().groups[0].desc = "";
      dumps.back().groups[0].ranks.resize(static_cast<size_t>(rank == odd ? size : 4));
      std::iota(dumps.back().groups[0].ranks.begin(), dumps.back().groups[0].ranks.end(), 0);
    }
    return dumps;
  };
  const Verdict behind = Analyze(LoadDumps(job(5, 8)));
  ExpectOnly(behind, INIT_INCOMPLETE, {5});
  std::vector<FrDump> other = job(5, 3);
  for (int rank = 0; rank < 8; ++rank) {
    FrEntry call = Entry("gloo:all_reduce");
    call.pg = rank % 2 == 0 ? "5" : "6";
    call.desc = "DATA";
    other[static_cast<size_t>(rank)].entries = {call};
  }
  ExpectFirst(Analyze(LoadDumps(other)), SPLIT_MISMATCH, {5});
  EXPECT_EQ(Analyze(LoadDumps(job(-1, 4))).findings_size(), 0);
}

TEST(FlightRecorderBeyond, HexGroupNamesAndANewBackendAreRead) {
  std::vector<FrDump> dumps = World(4, 5, [](int r, auto* e) {
    for (FrEntry& entry : *e) {
      entry.pg = "9f3ab2c0";
      entry.op = "nccl2:all_reduce";
    }
    if (r == 2) e->pop_back();
  });
  for (FrDump& d : dumps) d.groups[0].name = "9f3ab2c0";
  ExpectOnly(Analyze(LoadDumps(dumps)), RANK_NOT_ARRIVED, {2});
}

TEST(FlightRecorderBeyond, StagesMayIssueDifferentNumbersOfCalls) {
  // Ranks 0 and 1 are one pipeline stage. Ranks 2 and 3 are another, with its own group and three times as many
  // calls.
  std::vector<FrDump> dumps = World(
      4, 5, [](int, auto*) {}, "completed");
  for (int r = 0; r < 4; ++r) {
    FrGroup stage;
    stage.name = r < 2 ? "1" : "2";
    stage.desc = "TENSOR";
    stage.ranks = r < 2 ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{2, 3};
    stage.pg_id = 1;
    const int calls = r < 2 ? 3 : 9;
    for (int s = 1; s <= calls; ++s) {
      FrEntry e = Entry("all_reduce", k5x5, k5x5, s, "completed");
      e.pg = stage.name;
      e.desc = stage.desc;
      e.pg_id = 1;
      dumps[r].entries.insert(dumps[r].entries.begin() + s, e);
    }
    stage.enqueued = stage.completed = calls;
    dumps[r].groups.push_back(stage);
  }
  ExpectNothing(Analyze(LoadDumps(dumps)));
}

std::vector<std::string> Traces(const std::string& set) {
  std::vector<std::string> files;
  const std::filesystem::path folder = lockstep::testing::TracesFolder() / set;
  std::error_code error;
  for (const auto& e : std::filesystem::directory_iterator(folder, error)) {
    if (e.path().extension() != ".log") files.push_back(e.path());
  }
  return files;
}

struct TraceCase {
  const char* set;
  std::vector<int32_t> culprits;
};

void PrintTo(const TraceCase& trace, std::ostream* out) { *out << trace.set; }

class RecordedTrace : public ::testing::TestWithParam<TraceCase> {};

TEST_P(RecordedTrace, NamesTheInjectedRanks) {
  std::vector<std::string> files = Traces(GetParam().set);
  if (files.empty()) GTEST_SKIP() << "LOCKSTEP_TRACES names no folder of recorded traces";
  Bundle bundle;
  LoadFlightRecorder(files, &bundle);
  const Verdict v = Analyze(bundle);
  if (GetParam().culprits.empty()) {
    ExpectNothing(v);
  } else {
    ASSERT_GE(v.findings_size(), 1);
    const auto& got = v.findings(0).culprit_ranks();
    EXPECT_EQ(std::vector<int32_t>(got.begin(), got.end()), GetParam().culprits) << v.DebugString();
    EXPECT_EQ(v.findings_size(), 1) << v.DebugString();
  }
  std::reverse(files.begin(), files.end());
  Bundle reversed;
  LoadFlightRecorder(files, &reversed);
  EXPECT_EQ(Analyze(reversed).DebugString(), v.DebugString());
}

TEST_P(RecordedTrace, MissingDumpsOfOthersDoNotChangeTheCulprit) {
  const std::vector<std::string> files = Traces(GetParam().set);
  if (files.empty()) GTEST_SKIP() << "LOCKSTEP_TRACES names no folder of recorded traces";
  if (GetParam().culprits.empty()) GTEST_SKIP() << "this trace has no culprit";
  for (const std::string& left_out : files) {
    std::vector<std::string> rest;
    for (const std::string& f : files) {
      if (f != left_out) rest.push_back(f);
    }
    Bundle bundle;
    LoadFlightRecorder(rest, &bundle);
    const Verdict v = Analyze(bundle);
    ASSERT_GE(v.findings_size(), 1) << left_out;
    for (const Finding& f : v.findings()) {
      // A summary about several ranks uses the plural.
      EXPECT_TRUE(f.culprit_ranks_size() < 2 || f.summary().find("its GPU") == std::string::npos) << f.summary();
      if (f.kind() == RANK_NO_DATA) continue;  // it only reports missing data, and blames no rank
      for (int32_t r : f.culprit_ranks()) {
        const auto& truth = GetParam().culprits;
        EXPECT_NE(std::find(truth.begin(), truth.end(), r), truth.end()) << left_out << "\n" << v.DebugString();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RecordedTrace,
                         ::testing::Values(TraceCase{"megatron-16/lock_gil_1st", {9, 14}},
                                           TraceCase{"megatron-16/gpu_error_1st", {12, 14}},
                                           TraceCase{"torch-gloo-8/none", {}}, TraceCase{"torch-gloo-8/sleep5", {5}}),
                         [](const auto& info) {
                           std::string name = info.param.set;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !isalnum(c); }, '_');
                           return name;
                         });

// Rank 1's ring holds only unfinished calls. Its GPU is in one of the pair's calls that is no longer recorded, so no
// kernel outside NCCL blocks it.
TEST(FlightRecorderBeyond, TheGpuMayBeInACallWithoutARecord) {
  FrDump one, two;
  const FrGroup world = {.ranks = {0, 1, 2}, .enqueued = 2, .started = 1, .completed = 1};
  one.groups = {world, {.name = "1", .desc = "pair", .ranks = {0, 1}, .pg_id = 1, .enqueued = 3, .started = 1}};
  two.groups = {world};
  for (const int64_t seq : {2, 3}) {
    one.entries.push_back({.seq = seq, .pg = "1", .desc = "pair", .pg_id = 1, .record_id = seq + 1});
  }
  one.entries.push_back({.seq = 2, .record_id = 5});
  two.entries.push_back({.seq = 2, .record_id = 5});
  const Verdict v = Analyze(fr_test::LoadDumps(std::vector<std::optional<FrDump>>{std::nullopt, one, two}));
  ASSERT_GE(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(v.findings(0).kind(), RANK_NO_DATA) << v.DebugString();
  EXPECT_THAT(v.findings(0).culprit_ranks(), ::testing::ElementsAre(0));
}

// Replicas of two ranks, whose leaders meet between rounds. Rank 3 makes its replica's broadcast on the group of all
// ranks, so its leader never reaches the leaders' call.
TEST(FlightRecorderBeyond, ACallOnTheWrongGroupIsFoundByTheCounts) {
  constexpr int32_t kOdd = 3;
  std::vector<std::optional<FrDump>> dumps;
  for (int32_t rank = 0; rank < 8; ++rank) {
    const bool leads = rank % 2 == 0, behind = rank / 2 == kOdd / 2, odd = rank == kOdd;
    const int64_t round = behind ? 1 : 2, gathers = 41 * round - 1;
    const std::string name = std::to_string(1 + rank / 2);
    FrDump dump;
    dump.groups = {{.ranks = {0, 1, 2, 3, 4, 5, 6, 7}, .enqueued = odd ? 5 : 4, .completed = 4},
                   {.name = name,
                    .desc = "replica",
                    .ranks = {rank / 2 * 2, rank / 2 * 2 + 1},
                    .pg_id = 1,
                    .enqueued = odd ? gathers : gathers + 1,
                    .completed = gathers}};
    const auto add = [&](const char* op, int64_t seq, const std::string& pg, const char* desc, int64_t id, bool done) {
      dump.entries.push_back({.op = op,
                              .seq = seq,
                              .pg = pg,
                              .desc = desc,
                              .pg_id = id,
                              .state = done ? "completed" : "scheduled",
                              .retired = done,
                              .record_id = 50 * round + static_cast<int64_t>(dump.entries.size())});
    };
    for (int64_t seq = gathers - 8; seq < gathers; ++seq) add("nccl:all_reduce", seq, name, "replica", 1, true);
    add("nccl:gather", gathers, name, "replica", 1, true);
    if (leads) {
      dump.groups.push_back(
          {.name = "9", .desc = "outer", .ranks = {0, 2, 4, 6}, .pg_id = 2, .enqueued = round, .completed = 1});
      add("nccl:all_reduce", round, "9", "outer", 2, behind);
    }
    add("nccl:broadcast", odd ? 5 : gathers + 1, odd ? "0" : name, odd ? "default_pg" : "replica", odd ? 0 : 1, false);
    dumps.push_back(std::move(dump));
  }
  const Verdict v = Analyze(fr_test::LoadDumps(dumps));
  ASSERT_GE(v.findings_size(), 1) << v.DebugString();
  EXPECT_THAT(v.findings(0).culprit_ranks(), ::testing::ElementsAre(kOdd)) << v.DebugString();
}

// Flight Recorder has no entry for the creation of a group.
TEST(FlightRecorderBeyond, AnIdleRankMayWaitForOneWithoutData) {
  for (const bool missing : {false, true}) {
    std::vector<std::optional<FrDump>> dumps;
    for (int32_t rank = 0; rank < 4; ++rank) {
      const bool idle = rank == 2;
      FrDump dump;
      dump.groups = {{.ranks = {0, 1, 2, 3}, .enqueued = idle ? 1 : 2, .completed = 1}};
      dump.entries = {{.seq = 1, .state = "completed", .retired = true}};
      if (!idle) dump.entries.push_back({.seq = 2});
      dumps.push_back(std::move(dump));
    }
    if (missing) dumps[3] = std::nullopt;
    const Verdict v = Analyze(fr_test::LoadDumps(dumps));
    ASSERT_GE(v.findings_size(), 1) << v.DebugString();
    const Finding& f = v.findings(0);
    EXPECT_EQ(f.kind(), RANK_NOT_ARRIVED) << v.DebugString();
    EXPECT_THAT(f.culprit_ranks(), ::testing::ElementsAre(2));
    EXPECT_EQ(f.grade(), missing ? GRADE_FAIR : GRADE_GOOD);
    EXPECT_EQ(std::any_of(f.rivals().begin(), f.rivals().end(),
                          [](const Rival& rival) { return rival.kind() == Rival::SILENT_RANK; }),
              missing);
  }
}

// A faulty GPU stalls alone.
TEST(FlightRecorderBeyond, IfMostGpusHaveNotStartedTheyMayBeComputing) {
  std::vector<std::optional<FrDump>> dumps;
  for (int32_t rank = 0; rank < 8; ++rank) {
    FrDump dump;
    dump.groups = {{.ranks = {0, 1, 2, 3, 4, 5, 6, 7}, .enqueued = 2, .started = 1, .completed = 1}};
    dump.entries = {
        {.seq = 1, .state = "completed", .retired = true, .started_ns = 1'000'000, .completed_ns = 2'000'000},
        {.seq = 2}};
    dumps.push_back(std::move(dump));
  }
  dumps[3] = std::nullopt;
  Bundle bundle = fr_test::LoadDumps(dumps);
  for (const bool timed : {true, false}) {
    for (Rank& rank : bundle.ranks) rank.captured_ns = timed ? rank.captured_ns : 0;
    const Verdict v = Analyze(bundle);
    EXPECT_TRUE(timed || v.verdict() != VERDICT_HUNG) << v.DebugString();
    for (const Finding& f : v.findings()) EXPECT_LE(f.confidence(), 0.5) << v.DebugString();
  }
}

// Ranks pass data around a ring. The oldest send of each is overwritten, so the receives seem to wait for later ones.
TEST(FlightRecorderBeyond, ABatchWithoutItsBeginningProvesNoCycle) {
  std::vector<std::optional<FrDump>> dumps;
  for (int32_t rank = 0; rank < 4; ++rank) {
    FrDump dump;
    dump.pg_status = false;
    dump.groups = {{.ranks = {0, 1, 2, 3}}};
    const auto add = [&](const std::string& op, int64_t seq) {
      dump.entries.push_back({.op = "nccl:" + op,
                              .seq = 0,
                              .is_p2p = true,
                              .p2p_seq = seq,
                              .record_id = 90 + static_cast<int64_t>(dump.entries.size())});
    };
    for (int64_t seq = 30; seq < 34; ++seq) {
      if (seq > 30) add(absl::StrCat("send ", rank, "->", (rank + 1) % 4), seq);
      add(absl::StrCat("recv ", rank, "<-", (rank + 3) % 4), seq);
      add("coalesced", seq);
    }
    dumps.push_back(std::move(dump));
  }
  const Verdict v = Analyze(fr_test::LoadDumps(dumps));
  ASSERT_GE(v.findings_size(), 1);
  for (const Finding& f : v.findings()) EXPECT_LE(f.confidence(), 0.5) << v.DebugString();
}

}  // namespace
}  // namespace lockstep
