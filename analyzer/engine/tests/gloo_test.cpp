// Dumps of a backend (gloo) that has no group names, records no sends and receives, and marks failed operations as
// ended: when a process ends, its peers' operations fail and look complete.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/testing/fr_dumps.h"

namespace lockstep {
namespace {

using fr_test::FrDump;
using fr_test::FrEntry;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Dumps = std::vector<std::optional<FrDump>>;

constexpr int kGlooSteps = 12;

FrEntry Call(const char* op, int seq, int group, int order, int64_t elements) {
  FrEntry e;
  e.op = op;
  e.seq = seq;
  e.pg = std::to_string(group);
  e.desc = group == 0 ? "default_pg" : "undefined";
  e.pg_id = order;
  e.input = e.output = {{elements}};
  e.retired = true;
  return e;
}

FrDump Empty() {
  FrDump d;
  d.AsVersion("2.10");
  d.groups = {{.name = "", .desc = "", .in_status = false, .ranks_text = "[0, 1]"}};
  return d;
}

// Four ranks. Each step is a reduction in groups 1 (ranks 0, 1) and 2 (ranks 2, 3), then one in groups 3 (ranks 0, 2)
// and 4 (ranks 1, 3).
Dumps TwoDimensions() {
  Dumps dumps;
  for (int rank = 0; rank < 4; ++rank) {
    FrDump d = Empty();
    for (int step = 1; step <= kGlooSteps; ++step) {
      d.entries.push_back(Call("gloo:all_reduce", step, 1 + rank / 2, 1, 16));
      d.entries.push_back(Call("gloo:all_reduce", step, 3 + rank % 2, 2, 32));
    }
    dumps.push_back(std::move(d));
  }
  return dumps;
}

Finding First(const Dumps& dumps) {
  const Verdict v = Analyze(fr_test::LoadDumps(dumps));
  EXPECT_GE(v.findings_size(), 1) << v.DebugString();
  return v.findings_size() == 0 ? Finding() : v.findings(0);
}

TEST(Gloo, ACallThatDiffersIsFoundAlthoughItsPeerLeftNoFile) {
  // Rank 1 sends more than rank 0 expects, which ends rank 0. Rank 2's reduction with rank 0 therefore fails, and
  // rank 3 waits for rank 2.
  Dumps dumps = TwoDimensions();
  FrEntry& odd = dumps[1]->entries[2 * kGlooSteps - 2];
  odd.input = odd.output = {{21}};
  dumps[1]->entries.push_back(Call("gloo:all_reduce", kGlooSteps + 1, 1, 1, 16));
  dumps[3]->entries.push_back(Call("gloo:all_reduce", kGlooSteps + 1, 2, 1, 16));
  dumps[3]->entries.back().retired = false;
  dumps[0].reset();
  const Finding finding = First(dumps);
  EXPECT_EQ(finding.kind(), MISMATCH_COUNT);
  EXPECT_THAT(finding.culprit_ranks(), ElementsAre(1));
  EXPECT_THAT(finding.summary(), HasSubstr("21 input elements where"));
}

TEST(Gloo, ARankThatSkippedACallIsNamedBesideALostFile) {
  Dumps dumps;
  for (int rank = 0; rank < 8; ++rank) {
    FrDump d = Empty();
    d.groups[0].ranks_text = "[0, 1, 2, 3, 4, 5, 6, 7]";
    int seq = 0;
    for (int step = 0; step < kGlooSteps; ++step) {
      for (const int64_t elements : {64, 128, 192, 256}) {
        if (rank == 6 && step + 1 == kGlooSteps && elements == 128) continue;
        d.entries.push_back(Call("gloo:all_reduce", ++seq, 0, 0, elements));
        const bool last = step + 1 == kGlooSteps && elements > 64;
        d.entries.back().retired = !last || rank == 6;  // rank 6 lost its peer
      }
    }
    dumps.push_back(std::move(d));
  }
  dumps[5].reset();
  const Finding finding = First(dumps);
  EXPECT_EQ(finding.reason(), REASON_SKIPPED) << finding.DebugString();
  EXPECT_THAT(finding.culprit_ranks(), ElementsAre(6));
}

// gloo lists a group only after its first call.
TEST(Gloo, ARankWhoseDumpHasNoCallNeverMadeTheOthersCall) {
  Dumps dumps;
  for (int rank = 0; rank < 4; ++rank) {
    FrDump d = Empty();
    d.groups[0].ranks_text = "[0, 1, 2, 3]";
    if (rank != 2) {
      d.entries.push_back(Call("gloo:all_reduce", 1, 0, 0, 16));
      d.entries.back().retired = false;
    }
    dumps.push_back(std::move(d));
  }
  const Finding finding = First(dumps);
  EXPECT_EQ(finding.kind(), RANK_NOT_ARRIVED) << finding.DebugString();
  EXPECT_THAT(finding.culprit_ranks(), ElementsAre(2));
}

TEST(Gloo, AnIdleRankMayWaitForAnyRankWithoutAFile) {
  // A pipeline: ranks 0 and 1, and ranks 2 and 3, reduce with each other; sends are not recorded. Rank 3 left no dump,
  // and rank 1 waits for it in a receive.
  Dumps dumps;
  for (int rank = 0; rank < 4; ++rank) {
    FrDump d = Empty();
    for (int step = 1; step <= kGlooSteps; ++step)
      d.entries.push_back(Call("gloo:all_reduce", step, 1 + rank / 2, 1, 16));
    dumps.push_back(std::move(d));
  }
  dumps[0]->entries.back().retired = false;
  dumps[1]->entries.pop_back();
  dumps[2]->entries.back().retired = false;
  for (int rank = 0; rank < 3; ++rank) dumps[static_cast<size_t>(rank)]->groups[0].ranks_text = "[0, 1, 2, 3]";
  dumps[3].reset();
  const Finding finding = First(dumps);
  EXPECT_EQ(finding.kind(), RANK_NO_DATA);
  EXPECT_THAT(finding.culprit_ranks(), ElementsAre(3));
  ASSERT_GE(finding.alternatives_size(), 1);
  EXPECT_THAT(finding.alternatives(0), HasSubstr("rank 1 is stuck for another reason"));
}

// Rank 3 ended, so its reduction with rank 5 failed, which looks complete. Rank 1 is still in it. Rank 2's file is
// missing, too, and no file lists the group's members.
TEST(Gloo, AnOperationThatAMemberLeftMayHaveFailed) {
  Dumps dumps;
  for (int rank = 0; rank < 6; ++rank) {
    FrDump d = Empty();
    d.groups[0].ranks_text = "[0, 1, 2, 3, 4, 5]";
    for (int step = 1; step <= kGlooSteps; ++step) {
      d.entries.push_back(Call("gloo:all_reduce", step, 0, 0, 16));
      d.entries.push_back(Call("gloo:all_reduce", step, 1 + rank % 2, 1, 32));
    }
    dumps.push_back(std::move(d));
  }
  dumps[1]->entries.back().retired = false;
  dumps[2].reset(), dumps[3].reset();
  const Finding finding = First(dumps);
  EXPECT_EQ(finding.reason(), REASON_ALL_SEEN_IN) << finding.DebugString();
  EXPECT_EQ(finding.grade(), GRADE_GUESS);
  ASSERT_GE(finding.alternatives_size(), 1);
  EXPECT_THAT(finding.alternatives(0), HasSubstr("one of ranks 2, 3, which left no data"));
}

// The ring of rank 3 is short: it has lost the calls in group 0, which its process made like all others.
TEST(Gloo, ARankWhoseRingLostTheGroupMayHaveEntered) {
  for (const bool lost : {true, false}) {
    Dumps dumps;
    for (int rank = 0; rank < 4; ++rank) {
      FrDump d = Empty();
      int64_t record = 0;
      for (int step = 1; step <= kGlooSteps; ++step) {
        FrEntry world = Call("gloo:all_reduce", step, 0, 0, 16),
                pair = Call("gloo:all_reduce", step, 1 + rank / 2, 1, 32);
        world.record_id = record++, pair.record_id = record++;
        if (rank != 3 || (step + 2 > kGlooSteps && !lost)) d.entries.push_back(world);
        if (rank != 3 || step == kGlooSteps) d.entries.push_back(pair);
      }
      dumps.push_back(std::move(d));
    }
    const Verdict v = Analyze(fr_test::LoadDumps(dumps));
    EXPECT_EQ(v.findings_size(), 0) << v.DebugString();
  }
}

TEST(Gloo, AGroupWithoutEntriesMayHoldTheRank) {
  // Ranks 0 and 1 wait for 2 and 3. All created a group of two that no entry names: its sends and receives are not
  // recorded.
  Dumps dumps;
  for (int rank = 0; rank < 4; ++rank) {
    FrDump d = Empty();
    for (int step = 1; step <= kGlooSteps; ++step) d.entries.push_back(Call("gloo:all_reduce", step, 0, 0, 16));
    if (rank > 1) {
      d.entries.pop_back();
    } else {
      d.entries.back().retired = false;
    }
    dumps.push_back(std::move(d));
  }
  const Finding unsure = First(dumps);
  EXPECT_THAT(unsure.culprit_ranks(), ElementsAre(2, 3));
  EXPECT_EQ(unsure.grade(), GRADE_WEAK);
  for (std::optional<FrDump>& d : dumps) d->groups[0].ranks_text = "[0, 1, 2, 3]";
  EXPECT_EQ(First(dumps).grade(), GRADE_GOOD);
}

// Rank 3 ended. So the reductions of rank 2 in group 2 and of rank 1 in group 4 failed, which looks complete. Rank 0 is
// still in its reduction with rank 2.
Dumps RankThreeEnded() {
  Dumps dumps = TwoDimensions();
  for (const size_t rank : {0, 1, 2})
    dumps[rank]->entries.push_back(Call("gloo:all_reduce", kGlooSteps + 1, 1 + rank / 2, 1, 16));
  dumps[0]->entries.push_back(Call("gloo:all_reduce", kGlooSteps + 1, 3, 2, 32));
  dumps[0]->entries.back().retired = false;
  dumps[1]->entries.push_back(Call("gloo:all_reduce", kGlooSteps + 1, 4, 2, 32));
  return dumps;
}

TEST(Gloo, ALastCallThatAMemberNeverMadeHasFailed) {
  const Finding finding = First(RankThreeEnded());
  EXPECT_EQ(finding.kind(), RANK_NOT_ARRIVED);
  EXPECT_THAT(finding.culprit_ranks(), ElementsAre(3));
}

TEST(Gloo, ALastCallWithoutAnotherMembersDataMayHaveFailed) {
  Dumps dumps = RankThreeEnded();
  dumps[3].reset();
  for (std::optional<FrDump>& d : dumps) {
    if (d) d->groups[0].ranks_text = "[0, 1]";
  }
  const Finding finding = First(dumps);
  EXPECT_THAT(finding.culprit_ranks(), ElementsAre(2)) << finding.DebugString();
  EXPECT_EQ(finding.grade(), GRADE_WEAK);
}

// Rank 3's dump was written earlier and lacks the last four calls. That does not mean that these calls failed on the
// other ranks.
TEST(Gloo, AnOlderDumpDoesNotMakeCallsFail) {
  Dumps dumps = TwoDimensions();
  dumps[3]->entries.resize(dumps[3]->entries.size() - 4);
  const Bundle bundle = fr_test::LoadDumps(dumps);
  for (const Rank& rank : bundle.ranks) EXPECT_EQ(rank.ops.back().state, OpState::kCompleted) << rank.rank;
}

TEST(Gloo, TheLastCallOfARankThatDiffersFromItsRoleIsNamedBesideALostFile) {
  Dumps dumps;
  for (int rank = 0; rank < 8; ++rank) {
    FrDump d = Empty();
    d.groups[0].ranks_text = "[0, 1, 2, 3, 4, 5, 6, 7]";
    for (int step = 1; step <= kGlooSteps; ++step)
      d.entries.push_back(Call("gloo:all_reduce", step, 1 + rank / 2, 1, 16));
    dumps.push_back(std::move(d));
  }
  FrEntry& odd = dumps[0]->entries.back();
  odd.input = odd.output = {{21}};
  dumps[1].reset();
  const Finding finding = First(dumps);
  EXPECT_EQ(finding.kind(), MISMATCH_COUNT);
  EXPECT_THAT(finding.culprit_ranks(), ElementsAre(0));
}

}  // namespace
}  // namespace lockstep
