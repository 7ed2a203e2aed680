// Tests what dumps of ranks with the same role show about each other. The Flight Recorder dumps contain only active
// operations.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/engine/engine.h"
#include "analyzer/testing/fr_dumps.h"

namespace lockstep {
namespace {

using fr_test::FrDump;
using fr_test::FrEntry;
using fr_test::FrGroup;

// Four ranks in two kinds of groups: a pair ("tp") and all ranks ("world"); optionally a pair across ("pp").
class SiblingDumps {
 public:
  explicit SiblingDumps(bool pipeline = false) {
    for (int r = 0; r < 4; ++r) {
      FrDump d;
      d.AsVersion("2.9");
      d.groups = {Group("0", "world", {0, 1, 2, 3}, 0), Group(r < 2 ? "1" : "2", "tp", Pair(r / 2 * 2, 1), 1)};
      if (pipeline) d.groups.push_back(Group(r % 2 == 0 ? "3" : "4", "pp", Pair(r % 2, 2), 2));
      dumps_.push_back(d);
    }
  }

  // The rank has completed all calls up to `completed` on that group.
  SiblingDumps& Done(int rank, int group, int64_t completed) {
    FrGroup& g = dumps_[rank]->groups[group];
    g.completed = completed;
    g.enqueued = std::max(g.enqueued, completed);
    return *this;
  }
  // Adds a call in flight, after everything added before.
  SiblingDumps& Add(int rank, int group, int64_t seq, int64_t columns = 4) {
    FrGroup& g = dumps_[rank]->groups[group];
    FrEntry e;
    e.pg = g.name;
    e.desc = g.desc;
    e.pg_id = g.pg_id;
    e.seq = seq;
    e.input = e.output = {{4, columns}};
    g.enqueued = seq;
    dumps_[rank]->entries.push_back(e);
    return *this;
  }
  SiblingDumps& AddP2p(int rank, const std::string& op, int64_t seq) {
    Add(rank, 2, 0);
    FrEntry& e = dumps_[rank]->entries.back();
    e.op = op;
    e.is_p2p = true;
    e.p2p_seq = seq;
    dumps_[rank]->groups[2].enqueued = seq;
    return *this;
  }

  // Adds a call that is over, successful or not: the watchdog dropped it.
  SiblingDumps& Retired(int rank, int group, int64_t seq, int64_t columns = 4) {
    Add(rank, group, seq, columns).Done(rank, group, seq);
    dumps_[rank]->entries.back().retired = true;
    return *this;
  }
  // The rank leaves no dump.
  SiblingDumps& Leave(int rank) {
    dumps_[rank].reset();
    return *this;
  }

  void Expect(FindingKind kind, const std::vector<int32_t>& ranks) const {
    const Verdict v = Analyze(fr_test::LoadDumps(dumps_));
    ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
    EXPECT_EQ(FindingKind_Name(v.findings(0).kind()), FindingKind_Name(kind)) << v.DebugString();
    const auto& got = v.findings(0).culprit_ranks();
    EXPECT_EQ(std::vector<int32_t>(got.begin(), got.end()), ranks) << v.DebugString();
  }

 private:
  static std::vector<int32_t> Pair(int32_t first, int32_t step) { return {first, first + step}; }
  static FrGroup Group(const char* name, const char* desc, std::vector<int32_t> ranks, int64_t id) {
    FrGroup g;
    g.name = name;
    g.desc = desc;
    g.ranks = std::move(ranks);
    g.pg_id = id;
    return g;
  }

  std::vector<std::optional<FrDump>> dumps_;
};

TEST(Siblings, ARankStuckEarlierThanItsPeersIsACauseToo) {
  SiblingDumps job;
  for (int r = 0; r < 4; ++r) job.Done(r, 0, 9).Done(r, 1, 20);
  // Rank 0 never reached #10. Rank 1 reached it and stopped there. Ranks 2 and 3 continued while #10 was unfinished.
  for (int r = 1; r < 4; ++r) job.Add(r, 0, 10);
  for (int r = 2; r < 4; ++r) job.Add(r, 1, 21).Add(r, 0, 11);
  job.Expect(RANK_NOT_ARRIVED, {0, 1});
}

// All wait for rank 0. Processes run ahead of their GPUs by one call or by two.
TEST(Siblings, RanksThatRunAheadByDifferentNumbersOfCallsAreNoCause) {
  std::vector<std::optional<FrDump>> dumps;
  for (int r = 0; r < 8; ++r) {
    FrDump d;
    d.AsVersion("2.9");
    const int64_t enqueued = r == 0 ? 9 : r < 4 ? 10 : 11;
    d.groups = {
        {.name = "0", .desc = "world", .ranks = {0, 1, 2, 3, 4, 5, 6, 7}, .enqueued = enqueued, .completed = 9}};
    for (int64_t seq = 10; seq <= enqueued; ++seq) {
      FrEntry e;
      e.pg = "0";
      e.desc = "world";
      e.seq = seq;
      e.input = e.output = {{4, 4}};
      d.entries.push_back(e);
    }
    dumps.emplace_back(d);
  }
  dumps[0].reset();
  const Verdict v = Analyze(fr_test::LoadDumps(dumps));
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(v.findings(0).kind(), RANK_NO_DATA) << v.DebugString();
}

TEST(Siblings, ARankStuckAtTheSamePlaceAsItsPeersIsNoCause) {
  SiblingDumps job;
  for (int r = 0; r < 4; ++r) job.Done(r, 0, 9).Done(r, 1, 20);
  for (int r = 1; r < 4; ++r) job.Add(r, 0, 10);
  // Only rank 3 continued, which is not enough evidence against the others.
  job.Add(3, 1, 21).Add(3, 0, 11);
  job.Expect(RANK_NOT_ARRIVED, {0});
}

// Ranks 2 and 3 run more rounds than ranks 0 and 1. Their own pair's calls #21 and #22 come before the call that all
// ranks share.
TEST(Siblings, ExtraRoundsBeforeASharedCallDoNotShowThatPeersContinued) {
  SiblingDumps job;
  for (int r = 0; r < 4; ++r) job.Done(r, 0, 9).Done(r, 1, r < 2 ? 18 : 20);
  for (int r = 2; r < 4; ++r) job.Add(r, 1, 21).Add(r, 1, 22);
  for (int r = 0; r < 4; ++r) job.Add(r, 0, 10);
  job.Expect(COLLECTIVE_STUCK, {2, 3});
}

// All pairs have ended. They made 20 calls, but rank 1 made one more, which its partner never enters.
TEST(Siblings, OtherPairsShowWhichMemberOfAnUnequalPairIsOdd) {
  SiblingDumps job;
  for (int r = 0; r < 4; ++r) job.Done(r, 0, 9).Done(r, 1, 20);
  job.Add(1, 1, 21);
  job.Expect(RANK_AHEAD, {1});
  // The other pair has a different number of rounds.
  job.Done(2, 1, 22).Done(3, 1, 22);
  job.Expect(RANK_NOT_ARRIVED, {0});
}

// Like the previous test, but all other ranks continued to a call of the whole job. So rank 0 stopped; it did not end.
TEST(Siblings, ARankThatOthersWentPastDidNotEnd) {
  SiblingDumps job;
  for (int r = 0; r < 4; ++r) job.Done(r, 0, 9).Done(r, 1, 20);
  job.Add(1, 1, 21);
  for (int r = 1; r < 4; ++r) job.Add(r, 0, 10);
  job.Expect(RANK_NOT_ARRIVED, {0});
}

// In a ring, rank 0 skipped its step's exchanges. Active operations do not show which of rank 1's sends matches the
// receive of rank 2, which is one exchange ahead. It is not the send of the exchange in which rank 1 waits for rank
// 0.
TEST(Siblings, ASendOfAnExchangeThatWaitsForAnotherRankIsNotTheOtherSide) {
  std::vector<std::optional<FrDump>> dumps;
  for (int r = 0; r < 4; ++r) {
    const std::string me = absl::StrCat(r), next = absl::StrCat((r + 1) % 4), before = absl::StrCat((r + 3) % 4);
    FrDump d;
    d.AsVersion("2.9");
    d.groups = {{.ranks = {0, 1, 2, 3}, .enqueued = 2, .completed = 1},
                {.name = "1",
                 .desc = "ring",
                 .ranks = {0, 1, 2, 3},
                 .pg_id = 1,
                 .enqueued = r == 0 ? 6 : 8,
                 .completed = r == 2 ? 7 : 6}};
    for (int64_t number = r == 2 ? 8 : 7; r != 0 && number <= 8; ++number) {
      for (const std::string& op : {absl::StrCat("nccl:send ", me, "->", next),
                                    absl::StrCat("nccl:recv ", me, "<-", before), std::string("nccl:coalesced")}) {
        FrEntry e;
        e.op = op;
        e.seq = 0;
        e.pg = "1", e.desc = "ring", e.pg_id = 1;
        e.is_p2p = true;
        e.p2p_seq = number;
        d.entries.push_back(e);
      }
    }
    d.entries.push_back({.seq = 2});
    dumps.push_back(d);
  }
  const Verdict v = Analyze(fr_test::LoadDumps(dumps));
  ASSERT_GE(v.findings_size(), 1);
  const auto& got = v.findings(0).culprit_ranks();
  EXPECT_EQ(std::vector<int32_t>(got.begin(), got.end()), std::vector<int32_t>{0}) << v.DebugString();
}

TEST(Siblings, ACompletionNoticedLateIsNotACause) {
  SiblingDumps job;
  for (int r = 0; r < 4; ++r) job.Done(r, 0, r == 1 ? 8 : 9).Done(r, 1, 20);
  job.Add(1, 0, 9);
  for (int r = 0; r < 3; ++r) job.Add(r, 0, 10);
  job.Expect(RANK_NOT_ARRIVED, {3});
}

// The peers completed #9, so rank 1 waits for no other rank there: its GPU is stuck.
TEST(Siblings, ACompletionThatNothingElseExplainsIsACause) {
  SiblingDumps job;
  for (int r = 0; r < 4; ++r) job.Done(r, 0, r == 1 ? 8 : 9).Done(r, 1, 20);
  job.Add(1, 0, 9);
  for (int r = 0; r < 4; ++r) job.Add(r, 0, 10);
  job.Expect(GPU_STALL, {1});
}

// A collective ends for all of its members or for none.
TEST(Siblings, TheOnlyMemberThatCompletedMadeAnotherCall) {
  SiblingDumps job;
  for (int r = 0; r < 4; ++r) job.Done(r, 0, r == 2 ? 10 : 9).Done(r, 1, 20);
  for (int r = 0; r < 4; ++r) {
    if (r != 2) job.Add(r, 0, 10);
  }
  job.Add(2, 0, 11);
  job.Expect(SILENT_DESYNC, {2});
}

TEST(Siblings, ManyUnnoticedCompletionsAreACause) {
  SiblingDumps job;
  for (int r = 0; r < 4; ++r) job.Done(r, 0, r == 1 ? 5 : 9).Done(r, 1, 20);
  for (int s = 6; s <= 9; ++s) job.Add(1, 0, s);
  for (int r = 0; r < 3; ++r) job.Add(r, 0, 10);
  job.Expect(GPU_STALL, {1, 3});
}

TEST(Siblings, AFaultyGpuExplainsWhatItHoldsUp) {
  SiblingDumps job(true);
  for (int r = 0; r < 4; ++r) job.Done(r, 0, 9).Done(r, 1, r == 0 ? 20 : 24).Done(r, 2, 7);
  // Rank 0 no longer notices completions: its peer completed #21 to #24 with it. Rank 2 waits for rank 0's send.
  job.AddP2p(0, "nccl:send 0->1", 8);
  for (int s = 21; s <= 24; ++s) job.Add(0, 1, s);
  job.AddP2p(2, "nccl:recv 1<-0", 8);
  job.Expect(GPU_STALL, {0});
}

TEST(Siblings, PeersShowWhichOfTwoSizesIsOdd) {
  SiblingDumps job;
  for (int r = 0; r < 2; ++r) job.Done(r, 0, 9).Done(r, 1, 20).Add(r, 1, 21, r == 1 ? 5 : 4);
  for (int r = 2; r < 4; ++r) job.Done(r, 0, 9).Done(r, 1, 21).Add(r, 0, 10).Add(r, 1, 22);
  job.Expect(MISMATCH_COUNT, {1});
}

// Two threads of each rank make the same kinds of calls, and each also makes some that the other does not. If they
// were compared as one program, all second threads would contradict a first thread.
TEST(Siblings, TwoThreadsOfARankAreNotComparedAsOneProgram) {
  std::vector<std::optional<FrDump>> dumps;
  const char* const kinds[] = {"nccl:all_reduce", "nccl:gather", "nccl:scatter", "nccl:all_to_all"};
  constexpr int kRounds = 3;
  for (int r = 0; r < 4; ++r) {
    FrDump d;
    d.AsVersion("2.9");
    const std::string pair = r < 2 ? "1" : "2";
    d.groups = {{.name = pair, .desc = "tp", .ranks = {r / 2 * 2, r / 2 * 2 + 1}, .pg_id = r < 2 ? 1 : 2}};
    int64_t seq = 0;
    const auto call = [&](const std::string& op, int thread, bool last) {
      FrEntry e;
      e.op = op;
      e.seq = ++seq;
      e.pg = pair, e.desc = "tp", e.pg_id = d.groups[0].pg_id;
      e.input = e.output = {{4, last && r == 0 ? 5 : 4}};
      e.state = last && r < 2 ? "scheduled" : "completed";
      e.retired = !last;
      e.thread_id = std::to_string(thread);
      d.entries.push_back(e);
    };
    for (int round = 0; round < kRounds; ++round) {
      for (const char* kind : kinds) call(kind, 1, false), call(kind, 2, false);
      call("nccl:reduce", 1, false), call("nccl:broadcast", 2, false);
    }
    call("nccl:all_reduce", 1, true);
    d.groups[0].enqueued = seq;
    d.groups[0].completed = r < 2 ? seq - 1 : seq;
    dumps.emplace_back(std::move(d));
  }
  const Verdict v = Analyze(fr_test::LoadDumps(dumps));
  ASSERT_EQ(v.findings_size(), 1) << v.DebugString();
  EXPECT_EQ(v.findings(0).kind(), MISMATCH_COUNT) << v.DebugString();
  ASSERT_EQ(v.findings(0).culprit_ranks_size(), 1) << v.DebugString();
  EXPECT_EQ(v.findings(0).culprit_ranks(0), 0) << v.DebugString();
}

// Two pairs block at every call. The rank that died left no dump.
TEST(Siblings, ARankThatLeftAnOperationWithADeadRankIsNoCause) {
  SiblingDumps job;
  for (int r = 0; r < 4; ++r) job.Done(r, 0, 9).Done(r, 1, 20);
  job.Retired(0, 1, 21).Add(2, 0, 10).Add(3, 0, 10).Leave(1);
  job.Expect(RANK_NO_DATA, {1});
}

TEST(Siblings, ARankThatLeftAMismatchedCallIsNoCause) {
  SiblingDumps job;
  for (int r = 0; r < 4; ++r) job.Done(r, 0, 9).Done(r, 1, 20);
  job.Retired(0, 1, 21).Retired(1, 1, 21, 5).Retired(2, 1, 21).Retired(3, 1, 21).Add(2, 0, 10).Add(3, 0, 10);
  job.Expect(MISMATCH_COUNT, {1});
}

}  // namespace
}  // namespace lockstep
