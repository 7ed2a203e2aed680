// Tests the ages of operations. They are measured with each rank's own clock, and setting a wall clock makes no
// operation look stuck.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "analyzer/engine/engine.h"
#include "analyzer/engine/facts/model.h"
#include "analyzer/formats/fr/loader.h"
#include "analyzer/testing/fr_dumps.h"
#include "analyzer/util/time_units.h"

namespace lockstep {
namespace {

using fr_test::FrDump;

constexpr int64_t kNow = 1'758'000'100 * kSecond;
constexpr int64_t kUntold = -1, kSetBack = -2;  // capture time unknown; clock set back

// Ranks of one communicator, all in its second operation for `seconds`.
Bundle InOperation(const std::vector<int64_t>& seconds) {
  Bundle b;
  b.comms.resize(1);
  b.comms[0].size = static_cast<int32_t>(seconds.size());
  for (size_t r = 0; r < seconds.size(); ++r) {
    b.comms[0].members.push_back(static_cast<int32_t>(r));
    Rank rank;
    rank.rank = static_cast<int32_t>(r);
    rank.source = Source::kFlightRecorder;
    rank.set_back = seconds[r] == kSetBack;
    rank.captured_ns = seconds[r] < 0 ? 0 : kNow;
    Membership ms;
    ms.comm = 0;
    ms.member_rank = static_cast<int32_t>(r);
    ms.issued = 2;
    ms.completed = 1;
    rank.memberships.push_back(ms);
    Op op;
    op.membership = 0;
    op.kind = ring::CallKind::kAllReduce;
    op.seq = 2;
    op.state = OpState::kStarted;
    op.enter_ns = kNow - std::max<int64_t>(seconds[r], 0) * kSecond;
    rank.ops.push_back(op);
    b.ranks.push_back(rank);
  }
  return b;
}

TEST(Age, OtherRanksShowTheAgeIfAClockWasSetBack) {
  struct Case {
    std::vector<int64_t> seconds;
    bool stalled;
  };
  const std::vector<Case> cases{
      {{0, 1, 1}, false},           {{20, 20, 20}, true},
      {{0, 1, kSetBack}, false},    {{20, 20, kSetBack}, true},
      {{kSetBack, kSetBack}, true}, {{kSetBack, kUntold, 1}, true},  // an old file, or a copy
  };
  for (const Case& c : cases) {
    Bundle b = InOperation(c.seconds);
    EXPECT_EQ(Model(b, {}).stalled, c.stalled) << ::testing::PrintToString(c.seconds);
    b.known_stalled = true;
    EXPECT_TRUE(Model(b, {}).stalled) << ::testing::PrintToString(c.seconds);
  }
}

// A framework records an operation when it is enqueued. If two earlier ones took 30 s, another of 20 s is no sign of
// a hang. A single one may be slow for its own reasons.
TEST(Age, AnOperationIsOldOnlyIfItTakesLongerThanTwoEarlierOnes) {
  for (const auto& [seconds, earlier, stalled] :
       {std::tuple(20, 2, false), std::tuple(40, 2, true), std::tuple(20, 1, true)}) {
    Bundle b = InOperation({seconds, seconds});
    for (Rank& rank : b.ranks) {
      for (int i = 0; i < earlier; ++i) {
        Op done = rank.ops.back();
        done.seq = 1 - i;
        done.state = OpState::kCompleted;
        done.enter_ns = kNow - (100 + i * 50) * kSecond;
        done.completed_ns = done.enter_ns + 30 * kSecond;
        rank.ops.insert(rank.ops.begin(), done);
      }
    }
    EXPECT_EQ(Model(b, {}).stalled, stalled) << seconds << " s after " << earlier;
  }
}

// The CPU thread is far ahead of the GPU, so an operation may have been issued long before the GPU could reach it.
TEST(Age, AnOperationIsNotOlderThanTheEndOfTheOneBeforeItOnItsStream) {
  for (const int64_t seconds : {1, 20}) {
    Bundle b = InOperation({60, 60});
    for (Rank& rank : b.ranks) {
      rank.source = Source::kRing;
      rank.streams.resize(2);
      rank.ops[0].stream = 0;
      Op done = rank.ops[0];
      done.seq = 1;
      done.state = OpState::kCompleted;
      done.completed_ns = kNow - seconds * kSecond;
      rank.ops.insert(rank.ops.begin(), done);
    }
    EXPECT_EQ(Model(b, {}).stalled, seconds == 20);
    // What happens on other streams proves nothing about this one.
    for (Rank& rank : b.ranks) rank.ops[0].stream = 1;
    EXPECT_TRUE(Model(b, {}).stalled);
  }
}

// Every rank with a readable clock is idle and has made no call for a long time. These ranks may wait for the one whose
// clock was set back.
TEST(Age, AMissingRankDoesNotProveThatTheJobMoves) {
  for (const int64_t seconds : {1, 30}) {
    Bundle b = InOperation({0, kSetBack});
    Rank& other = b.ranks[0];
    other.memberships[0].issued = other.ops[0].seq = 1;
    other.ops[0].state = OpState::kCompleted;
    other.ops[0].enter_ns = kNow - seconds * kSecond;
    EXPECT_EQ(Model(b, {}).stalled, seconds == 30);
  }
}

// The call is later than the dump, because the clock was set back between them. Its age is therefore unknown, not
// small.
TEST(Age, AnOperationLaterThanTheDumpIsNotYoung) {
  Bundle b = InOperation({0, 0});
  for (Rank& rank : b.ranks) rank.ops[0].enter_ns = kNow + 3600 * kSecond;
  {
    const Model model(b, {});
    EXPECT_EQ(Model::Age(b.ranks[0], b.ranks[0].ops[0]), kUnknown);
    EXPECT_FALSE(model.ranks[0].seen_moving);
    EXPECT_TRUE(model.stalled);
  }
  // The recorder's own clock is never set, so here the call began while the data was being taken.
  for (Rank& rank : b.ranks) rank.source = Source::kRing;
  const Model model(b, {});
  EXPECT_EQ(Model::Age(b.ranks[0], b.ranks[0].ops[0]), 0);
  EXPECT_FALSE(model.stalled);
}

// Four ranks' files, whose newest operation began `seconds` before they were written. Rank `left_out` never arrived.
// The clock of rank 2 was set back before its file was written, or before its last record. `old` files contain no
// timeout.
Verdict OfFiles(int64_t seconds, int left_out, bool set_before_last, bool old = false) {
  fr_test::DumpFolder folder;
  for (int rank = 0; rank < 4; ++rank) {
    const int64_t back = rank == 2 ? 8 * kSecond : 0;
    const int64_t entered = kNow - seconds * kSecond;
    FrDump dump;
    dump.groups = {{.ranks = {0, 1, 2, 3}}};
    dump.single_seq = old;
    for (int seq : {1, 2, 3}) {
      dump.entries.push_back(
          {.seq = seq, .state = "completed", .retired = true, .created_ns = entered - (4 - seq) * kSecond / 10});
    }
    if (rank != left_out) dump.entries.push_back({.seq = 4, .created_ns = entered - (set_before_last ? back : 0)});
    const std::string path = folder.WriteRank(rank, fr_test::ToPickle(dump));
    const timespec when = {.tv_sec = (kNow - back) / kSecond, .tv_nsec = 1000};
    const timespec times[] = {when, when};
    EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  Bundle bundle;
  LoadFlightRecorder(folder.Files(), &bundle);
  return Analyze(bundle);
}

TEST(Age, AClockSetBackNeitherCausesNorHidesAHang) {
  for (const bool set_before_last : {false, true}) {
    SCOPED_TRACE(set_before_last);
    const Verdict moves = OfFiles(0, -1, set_before_last);
    EXPECT_EQ(moves.verdict(), VERDICT_HEALTHY) << moves.DebugString();
    EXPECT_EQ(OfFiles(0, 1, set_before_last).findings_size(), 0);  // the rank may be about to arrive
    for (const int64_t seconds : {7, 30, 600}) {
      const Verdict stands = OfFiles(seconds, 1, set_before_last);
      // Long before the watchdog would give up, the missing rank may just need more time.
      EXPECT_EQ(stands.verdict(), 2 * seconds < 600 ? VERDICT_LATE : VERDICT_HUNG) << seconds << stands.DebugString();
      ASSERT_EQ(stands.findings_size(), 1) << seconds << stands.DebugString();
      ASSERT_EQ(stands.findings(0).culprit_ranks_size(), 1);
      EXPECT_EQ(stands.findings(0).culprit_ranks(0), 1);
    }
  }
}

TEST(Age, WithoutATimeoutInTheFilesPyTorchsDefaultCounts) {
  for (const int64_t seconds : {30, 310}) {
    const Verdict v = OfFiles(seconds, 1, false, /*old=*/true);
    EXPECT_EQ(v.verdict(), seconds < 300 ? VERDICT_LATE : VERDICT_HUNG) << seconds << v.DebugString();
    ASSERT_EQ(v.findings_size(), 1) << seconds;
    EXPECT_EQ(v.findings(0).culprit_ranks(0), 1);
  }
}

TEST(Age, AnOperationWithoutAnEntryTimeHasNoAge) {
  Bundle b = InOperation({60, 60, 60, 60});
  b.ranks[1].ops[0].enter_ns = 0;
  EXPECT_EQ(Model::Age(b.ranks[1], b.ranks[1].ops[0]), kUnknown);
  EXPECT_TRUE(Model(b, {}).stalled);
  EXPECT_EQ(Analyze(b).verdict(), VERDICT_LATE);
}

TEST(Age, AnOperationThatAWatchdogGaveUpIsHung) {
  for (const bool given_up : {false, true}) {
    Bundle b = InOperation({60, 60, 60, 60});
    for (Rank& rank : b.ranks) rank.ops[0].retired = given_up;
    EXPECT_EQ(Analyze(b).verdict(), given_up ? VERDICT_HUNG : VERDICT_LATE);
  }
}

// Ranks whose GPUs are behind the others, each at a different place. If all dumps are from one moment, several GPUs
// are at fault. If nothing shows when they were taken, the job may have been running.
TEST(Age, RanksAtSeveralPlacesMayBeDumpsOfSeveralMoments) {
  for (const bool told : {false, true}) {
    Bundle b = InOperation(std::vector<int64_t>(8, told ? 600 : kUntold));
    for (Rank& rank : b.ranks) {
      const int64_t completed = rank.rank < 3 ? 2 + rank.rank : 8;
      const Op open = rank.ops[0];
      rank.ops.clear();
      for (int64_t seq = 1; seq <= completed + 2; ++seq) {
        rank.ops.push_back(open);
        rank.ops.back().seq = rank.ops.back().record_id = seq;
        rank.ops.back().state = seq <= completed ? OpState::kCompleted : OpState::kStarted;
      }
      rank.memberships[0].issued = completed + 2;
      rank.memberships[0].completed = completed;
    }
    const Verdict v = Analyze(b);
    ASSERT_GE(v.findings_size(), 1) << v.DebugString();
    EXPECT_EQ(v.verdict(), told ? VERDICT_HUNG : VERDICT_LATE) << v.DebugString();
    EXPECT_EQ(v.findings(0).confidence() > 0.5, told) << v.DebugString();
  }
}

}  // namespace
}  // namespace lockstep
