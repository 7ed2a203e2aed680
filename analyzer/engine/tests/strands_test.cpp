// Tests calls whose order differs between ranks without blocking any of them: those of a thread that writes
// checkpoints.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/testing/findings.h"
#include "analyzer/testing/fr_dumps.h"
#include "analyzer/testing/log_folder.h"

namespace lockstep {
namespace {

using fr_test::FrDump;
using testing::Culprits;
using testing::ExpectOnly;
using testing::LogsTest;
using testing::Show;

constexpr int64_t kNow = fr_test::kFirstEntryNs + 100'000'000'000;

// Four ranks in a group for training and one for checkpoints. Each of `steps` steps has three training calls and one
// checkpoint call, which rank r makes before its r-th call. In the last step, all are in flight.
std::vector<FrDump> Training(int steps, bool same_order = false) {
  std::vector<FrDump> dumps(4);
  for (int r = 0; r < 4; ++r) {
    FrDump& dump = dumps[static_cast<size_t>(r)];
    dump.thread = false;
    const std::vector<int32_t> all = {0, 1, 2, 3};
    dump.groups = {{.ranks = all, .enqueued = 3 * steps, .completed = 3 * steps - 3},
                   {.name = "1", .desc = "ckpt", .ranks = all, .pg_id = 1, .enqueued = steps, .completed = steps - 1}};
    for (int step = 1; step <= steps; ++step) {
      const std::string state = step < steps ? "completed" : "scheduled";
      for (int call = 0; call < 3; ++call) {
        if (call == (same_order ? 1 : r % 3))
          dump.entries.push_back({.seq = step, .pg = "1", .desc = "ckpt", .pg_id = 1, .state = state});
        dump.entries.push_back({.seq = 3 * step - 2 + call, .state = state});
      }
    }
    for (fr_test::FrEntry& e : dump.entries) e.retired = e.state == "completed";
  }
  return dumps;
}

// Removes everything that the rank issued from its `from`-th entry on.
void Stop(FrDump* dump, size_t from) {
  for (size_t i = from; i < dump->entries.size(); ++i)
    --dump->groups[static_cast<size_t>(dump->entries[i].pg_id)].enqueued;
  dump->entries.resize(from);
}

Verdict Of(std::vector<FrDump> dumps) {
  std::vector<std::optional<FrDump>> given(dumps.begin(), dumps.end());
  return Analyze(fr_test::LoadDumps(given));
}

TEST(Strands, CallsThatCompleteInAnyOrderDoNotBlockEachOther) {
  std::vector<FrDump> dumps = Training(6);
  // Rank 2 stops after two of three calls, and has made the checkpoint call.
  Stop(&dumps[2], dumps[2].entries.size() - 2);
  ExpectOnly(Of(dumps), RANK_NOT_ARRIVED, {2});
}

// Every rank is in the same calls, and has made them in an order of its own before.
TEST(Strands, RanksThatCallInAnyOrderAreNotBlamedForIt) {
  const Verdict v = Of(Training(6));
  ASSERT_GE(v.findings_size(), 1) << Show(v);
  for (const Finding& finding : v.findings()) EXPECT_EQ(finding.kind(), COLLECTIVE_STUCK) << Show(v);
}

TEST(Strands, TheOrderOfOtherCallsStillShowsWhichRankLeftOutOne) {
  std::vector<FrDump> dumps = Training(6);
  auto& entries = dumps[3].entries;
  // Rank 3 skipped a call in the fourth step.
  entries.erase(entries.begin() + 14);
  for (size_t i = 14; i < entries.size(); ++i) entries[i].seq -= entries[i].pg_id == 0;
  --dumps[3].groups[0].enqueued;
  const Verdict v = Of(dumps);
  for (const Finding& finding : v.findings()) EXPECT_NE(finding.kind(), ORDER_INVERSION) << Show(v);
}

// Nothing shows whether the order of these calls matters, and a rank without data may be delaying all of them.
TEST(Strands, ARankWithoutDataExplainsACircleOfUnknownOrders) {
  std::vector<std::optional<FrDump>> dumps;
  for (FrDump& dump : Training(1)) dumps.emplace_back(std::move(dump));
  dumps[3].reset();
  const Verdict v = Analyze(fr_test::LoadDumps(dumps));
  ExpectOnly(v, RANK_NO_DATA, {3});
}

TEST(Strands, ACircleOfUnknownOrdersIsAHypothesis) {
  const Verdict v = Of(Training(1));
  ASSERT_EQ(v.findings_size(), 1) << Show(v);
  EXPECT_EQ(v.findings(0).kind(), ORDER_INVERSION) << Show(v);
  EXPECT_LE(v.findings(0).confidence(), 0.5) << Show(v);
}

// The watchdog of each group ends the process when it is the first to detect a timeout. The other group is not
// mentioned.
TEST_F(LogsTest, AGroupThatALogDoesNotMentionMayHaveBeenUsed) {
  const auto late = [](int rank, const std::string& group) {
    return testing::Of(rank) + testing::Caught(rank, 5) + testing::Of(rank) + testing::Counters(group, rank, 6, 4);
  };
  for (const int rank : {0, 1, 2, 4, 5, 7})
    Put("rank_" + std::to_string(rank) + ".log", late(rank, rank % 2 == 0 ? "0(default_pg)" : "1(ckpt)"));
  const Verdict v = Told();
  for (const Finding& finding : v.findings()) EXPECT_LE(finding.confidence(), 0.5) << Show(v);
}

// All calls are complete. If the others are all at one place behind a rank, that rank stopped; if they are at several
// places, nobody stopped.
TEST(Strands, DumpsOfSeveralMomentsShowNoMissingRank) {
  for (const bool one_place : {true, false}) {
    std::vector<FrDump> dumps;
    for (const int calls : {3, one_place ? 6 : 5, 6, 6}) {
      FrDump dump;
      dump.pg_status = false;
      dump.groups[0].ranks = {0, 1, 2, 3};
      for (int seq = 1; seq <= calls; ++seq)
        dump.entries.push_back({.seq = seq, .state = "completed", .retired = true});
      dumps.push_back(dump);
    }
    const Verdict v = Of(dumps);
    if (one_place) {
      ExpectOnly(v, RANK_NOT_ARRIVED, {0});
    } else {
      EXPECT_EQ(v.findings_size(), 0) << Show(v);
    }
  }
}

// All members agree on the uneven groups, and nothing is wrong in them.
TEST(Strands, GroupsThatMayBeIntendedDoNotHideACause) {
  const std::vector<std::vector<int32_t>> uneven = {{0, 1}, {2, 3}, {4, 5, 6}, {7, 8}};
  std::vector<FrDump> dumps(9);
  for (size_t g = 0; g < uneven.size(); ++g) {
    const std::string name = std::to_string(g + 1);
    for (const int32_t r : uneven[g]) {
      FrDump& dump = dumps[static_cast<size_t>(r)];
      const int64_t issued = r == 8 ? 2 : 3;
      dump.groups = {{.ranks = {0, 1, 2, 3, 4, 5, 6, 7, 8}, .enqueued = issued, .completed = 2},
                     {.name = name, .desc = "tp", .ranks = uneven[g], .pg_id = 1, .enqueued = 2, .completed = 2}};
      for (int64_t seq = 1; seq <= issued; ++seq) {
        const bool done = seq < 3;
        if (done)
          dump.entries.push_back(
              {.seq = seq, .pg = name, .desc = "tp", .pg_id = 1, .state = "completed", .retired = true});
        dump.entries.push_back({.seq = seq, .state = done ? "completed" : "scheduled", .retired = done});
      }
    }
  }
  const Verdict v = Of(dumps);
  ASSERT_GE(v.findings_size(), 1) << Show(v);
  EXPECT_EQ(v.findings(0).kind(), RANK_NOT_ARRIVED) << Show(v);
  EXPECT_EQ(Culprits(v.findings(0)), std::vector<int32_t>{8}) << Show(v);
}

// One of four ranks that are all in their `last` call.
FrDump InCall(int last) {
  FrDump dump;
  dump.groups[0].ranks = {0, 1, 2, 3};
  dump.groups[0].enqueued = last;
  dump.groups[0].completed = last - 1;
  for (int seq = 1; seq <= last; ++seq)
    dump.entries.push_back({.seq = seq, .state = seq < last ? "completed" : "scheduled", .retired = seq < last});
  return dump;
}

// Two dumps were taken half a second after the calls, before a watchdog could notice that they had completed.
TEST(Strands, CompletionsThatNobodyCouldNoticeYetAreNotMissing) {
  const FrDump late = InCall(5);
  FrDump early = late;
  early.groups[0].completed = -1;
  for (fr_test::FrEntry& e : early.entries) e.state = "scheduled", e.retired = false;
  FrDump stopped = late;
  stopped.entries.pop_back();
  stopped.groups[0].enqueued = 4;
  Bundle bundle = fr_test::LoadDumps({late, early, early, stopped});
  for (Rank& rank : bundle.ranks) rank.captured_ns = rank.rank % 3 == 0 ? kNow : fr_test::kFirstEntryNs + 500'000'000;
  ExpectOnly(Analyze(bundle), RANK_NOT_ARRIVED, {3});
}

// Rank 1's dump is from half a second after its last two calls. The others show that the first of them completed, and
// all are in the second.
TEST(Strands, NobodyWaitsForWhatWasNotNoticedYet) {
  const FrDump late = InCall(6);
  FrDump early = late;
  early.groups[0].completed = 4;
  early.entries[4].state = "scheduled";
  early.entries[4].retired = false;
  Bundle bundle = fr_test::LoadDumps({late, early, late, late});
  for (Rank& rank : bundle.ranks) rank.captured_ns = rank.rank == 1 ? fr_test::kFirstEntryNs + 500'000'000 : kNow;
  const Verdict v = Analyze(bundle);
  EXPECT_NE(v.verdict(), VERDICT_HEALTHY) << Show(v);
  for (const Finding& f : v.findings()) EXPECT_NE(Culprits(f), std::vector<int32_t>{1}) << Show(v);
}

}  // namespace
}  // namespace lockstep
