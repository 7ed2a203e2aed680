#include "analyzer/formats/generations.h"
#include "analyzer/util/time_units.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using ring::CommState;

LooseRank Made(int rank, int world, const std::string& comm, int64_t at, CommState state = CommState::kReady) {
  LooseRank loose;
  loose.rank.rank = rank;
  loose.rank.world_size = world;
  loose.rank.path = comm + "." + std::to_string(rank);
  Membership ms;
  ms.member_rank = rank;
  ms.state = state;
  ms.created_ns = at;
  loose.rank.memberships.push_back(ms);
  CommFacts facts;
  facts.id = comm;
  facts.size = world;
  loose.comms.push_back(facts);
  return loose;
}

// Returns the ranks in the form in which BundleBuilder holds them.
HeldRanks Hold(std::vector<LooseRank> ranks) {
  HeldRanks held;
  std::map<std::string, uint32_t> comms;
  for (LooseRank& loose : ranks) {
    auto one = std::make_unique<HeldRank>();
    one->rank = std::move(loose.rank);
    for (CommFacts& facts : loose.comms) {
      const uint32_t comm = comms.try_emplace(facts.id, static_cast<uint32_t>(comms.size())).first->second;
      one->facts.push_back(static_cast<uint32_t>(held.facts.size()));
      held.facts.push_back({std::move(facts), comm});
    }
    held.ranks.push_back(std::move(one));
  }
  return held;
}

std::vector<std::string> Paths(const HeldRanks& held) {
  std::vector<std::string> paths;
  for (const auto& one : held.ranks) paths.push_back(one->rank.path);
  return paths;
}

TEST(Generations, TheNewestRunIsKeptEvenIfAnOlderRecordedMore) {
  std::vector<LooseRank> ranks;
  std::vector<Problem> problems;
  for (int r = 0; r < 4; ++r) {
    ranks.push_back(Made(r, 4, "old", 100 * kSecond));
    ranks.back().rank.memberships[0].issued = 1'000'000;
    ranks.push_back(Made(r, 4, "new", 500 * kSecond));
  }
  HeldRanks held = Hold(std::move(ranks));
  KeepNewestRun(&held, &problems);
  EXPECT_EQ(Paths(held), (std::vector<std::string>{"new.0", "new.1", "new.2", "new.3"}));
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_TRUE(problems[0].note);
  EXPECT_NE(problems[0].text.find("4 ranks"), std::string::npos);
}

// Rank 2's dump from the newest run is missing. The previous run's dump must not replace it.
TEST(Generations, AnOldDumpDoesNotReplaceAMissingOne) {
  std::vector<LooseRank> ranks;
  std::vector<Problem> problems;
  for (int r = 0; r < 4; ++r)
    ranks.push_back(Made(r, 4, r == 2 ? "old" : "new", r == 2 ? 100 * kSecond : 500 * kSecond));
  HeldRanks held = Hold(std::move(ranks));
  KeepNewestRun(&held, &problems);
  EXPECT_EQ(Paths(held), (std::vector<std::string>{"new.0", "new.1", "new.3"}));
  EXPECT_EQ(problems.size(), 1u);
}

// Rank 2 is alone in creating a communicator with a different unique id, but belongs to this run.
TEST(Generations, AnotherUniqueIdIsNotAnotherRun) {
  std::vector<LooseRank> ranks;
  std::vector<Problem> problems;
  for (int r = 0; r < 4; ++r)
    ranks.push_back(Made(r, 4, r == 2 ? "stray" : "world", 100 * kSecond, CommState::kInitializing));
  HeldRanks held = Hold(std::move(ranks));
  KeepNewestRun(&held, &problems);
  EXPECT_EQ(held.ranks.size(), 4u);
  EXPECT_TRUE(problems.empty());
}

// Two programs of one job that share no communicator.
TEST(Generations, ProgramsThatShareNoRankOrCommunicatorStay) {
  std::vector<LooseRank> ranks;
  std::vector<Problem> problems;
  for (int r = 0; r < 8; ++r) {
    ranks.push_back(Made(r, 8, r < 4 ? "trainer" : "server", 100 * kSecond));
    ranks.back().comms[0].size = 4;
  }
  ranks.push_back({});
  ranks.back().rank.rank = 8;  // this rank created no communicator
  HeldRanks held = Hold(std::move(ranks));
  KeepNewestRun(&held, &problems);
  EXPECT_EQ(held.ranks.size(), 9u);
  EXPECT_TRUE(problems.empty());
}

// A Flight Recorder bundle. Every rank issued and completed AllReduces first to first + 9 in one group.
Bundle Dumps(const std::vector<std::pair<int64_t, int64_t>>& first_and_time) {
  Bundle b;
  Communicator comm;
  comm.id = "0/1";
  comm.size = static_cast<int32_t>(first_and_time.size());
  b.comms.push_back(comm);
  for (size_t r = 0; r < first_and_time.size(); ++r) {
    Rank rank;
    rank.rank = static_cast<int32_t>(r);
    rank.source = Source::kFlightRecorder;
    Membership ms;
    ms.comm = 0;
    ms.member_rank = static_cast<int32_t>(r);
    rank.memberships.push_back(ms);
    for (int64_t i = 0; i < 10; ++i) {
      Op op;
      op.membership = 0;
      op.kind = ring::CallKind::kAllReduce;
      op.state = OpState::kCompleted;
      op.seq = first_and_time[r].first + i;
      op.enter_ns = first_and_time[r].second + i * 1'000'000;
      rank.ops.push_back(op);
    }
    b.ranks.push_back(rank);
    b.comms[0].members.push_back(static_cast<int32_t>(r));
  }
  return b;
}

TEST(ForeignDumps, ADumpThatContradictsTheOthersIsLeftOut) {
  for (const int64_t first : {int64_t{5}, int64_t{90'000}}) {
    Bundle b = Dumps({{700, 9000 * kSecond}, {700, 9000 * kSecond}, {first, 1000 * kSecond}, {700, 9001 * kSecond}});
    LeaveOutForeignDumps(&b);
    ASSERT_EQ(b.ranks.size(), 3u) << first;
    EXPECT_EQ(b.ranks[2].rank, 3);
    ASSERT_EQ(b.problems.size(), 1u);
    EXPECT_EQ(b.problems[0].rank, 2);
  }
}

TEST(ForeignDumps, ALateOrSkewedRankStays) {
  // This rank is behind at about the same time, so it may be the rank that stopped.
  Bundle behind = Dumps({{700, 9000 * kSecond}, {700, 9000 * kSecond}, {690, 8990 * kSecond}, {700, 9000 * kSecond}});
  LeaveOutForeignDumps(&behind);
  EXPECT_EQ(behind.ranks.size(), 4u);
  // This rank has the same numbers and a clock that is wrong by an hour, which is no contradiction.
  Bundle skewed = Dumps({{700, 9000 * kSecond}, {700, 9000 * kSecond}, {700, 5400 * kSecond}, {700, 9000 * kSecond}});
  LeaveOutForeignDumps(&skewed);
  EXPECT_EQ(skewed.ranks.size(), 4u);
}

// Half of the dumps contradict the others. The newest ones are analyzed, if there are several.
TEST(ForeignDumps, WithoutAMajorityTheNewestStay) {
  Bundle halves = Dumps({{5, 1000 * kSecond}, {700, 9000 * kSecond}, {700, 9000 * kSecond}, {5, 1000 * kSecond}});
  LeaveOutForeignDumps(&halves);
  ASSERT_EQ(halves.ranks.size(), 2u);
  EXPECT_EQ(halves.ranks[0].rank, 1);
  EXPECT_EQ(halves.ranks[1].rank, 2);
  EXPECT_EQ(halves.problems.size(), 2u);
  Bundle each = Dumps({{5, 1000 * kSecond}, {700, 9000 * kSecond}});
  LeaveOutForeignDumps(&each);
  EXPECT_EQ(each.ranks.size(), 2u);
  ASSERT_EQ(each.problems.size(), 1u);
  EXPECT_NE(each.problems[0].text.find("the dumps are from several runs"), std::string::npos);
}

// Ranks that die immediately leave no dump, so an earlier run's dumps stay next to a few new dumps.
TEST(ForeignDumps, AFewNewestDumpsAreNotForeign) {
  const std::pair<int64_t, int64_t> before(5, 1000 * kSecond), now(700, 9000 * kSecond);
  Bundle b = Dumps({before, now, before, before, now, before, before});
  LeaveOutForeignDumps(&b);
  ASSERT_EQ(b.ranks.size(), 2u);
  EXPECT_EQ(b.ranks[0].rank, 1);
  EXPECT_EQ(b.ranks[1].rank, 4);
}

// Another attempt made calls with the same numbers an hour or half a minute earlier or later, at its own pace. The
// calls of one attempt completed before the other attempt issued its calls.
TEST(ForeignDumps, AnEarlierAttemptWithTheSameNumbersIsLeftOut) {
  for (const bool by_taking : {false, true}) {
    for (const int64_t seconds : {5400, 8970, 8990, 12'600}) {
      Bundle b = Dumps({{700, 9000 * kSecond}, {700, 9000 * kSecond}, {700, seconds * kSecond}, {700, 9000 * kSecond}});
      for (Op& op : b.ranks[2].ops) op.enter_ns += (op.seq - 700) * kSecond / 2;
      for (Rank& rank : b.ranks) {
        if (by_taking) rank.captured_ns = rank.ops.back().enter_ns + kSecond;
        for (Op& op : rank.ops) op.completed_ns = by_taking ? 0 : op.enter_ns + kSecond / 100;
      }
      LeaveOutForeignDumps(&b);
      const bool known = !by_taking || seconds == 5400 || seconds == 12'600;
      ASSERT_EQ(b.ranks.size(), known ? 3u : 4u) << seconds << " s, by taking " << by_taking;
      EXPECT_EQ(b.ranks.back().rank, 3);
    }
  }
}

// Rank 2 made its calls together with the others, on a clock that is wrong by an hour or a day.
TEST(ForeignDumps, AWrongClockIsCorrected) {
  for (const int64_t wrong : {-3600 * kSecond, 86'400 * kSecond}) {
    Bundle b = Dumps({{700, 9000 * kSecond}, {700, 9000 * kSecond}, {700, 9000 * kSecond}, {700, 9000 * kSecond}});
    for (Rank& rank : b.ranks) {
      for (Op& op : rank.ops) {
        op.enter_ns +=
            (op.seq - 700) * kSecond + rank.rank * op.seq % 3 * kSecond / 1000 + (rank.rank == 2 ? wrong : 0);
        op.completed_ns = op.enter_ns + kSecond / 100;
      }
      rank.captured_ns = rank.ops.back().enter_ns + kSecond;
    }
    LeaveOutForeignDumps(&b);
    ASSERT_EQ(b.ranks.size(), 4u);
    EXPECT_LT(std::abs(b.ranks[2].captured_ns - b.ranks[1].captured_ns), kSecond);
    EXPECT_LT(std::abs(b.ranks[2].ops[0].completed_ns - b.ranks[1].ops[0].completed_ns), kSecond);
    ASSERT_EQ(b.problems.size(), 1u);
    EXPECT_EQ(b.problems[0].rank, 2);
    EXPECT_NE(b.problems[0].text.find(wrong > 0 ? "86400 s ahead of other" : "3600 s behind other"), std::string::npos);
  }
}

// Half a minute earlier, another attempt got further, or less far, in the same group.
TEST(ForeignDumps, AnAttemptHalfAMinuteEarlierIsFoundByItsNumbers) {
  for (const int64_t first : {695, 705}) {
    for (const int64_t noticed : {kSecond / 10, 600 * kSecond}) {
      Bundle b = Dumps({{700, 9000 * kSecond}, {700, 9000 * kSecond}, {first, 8970 * kSecond}, {700, 9000 * kSecond}});
      for (Rank& rank : b.ranks) {
        for (Op& op : rank.ops) op.completed_ns = op.enter_ns + noticed;
      }
      LeaveOutForeignDumps(&b);
      // After a timeout, an abort may have ended the operations.
      EXPECT_EQ(b.ranks.size(), noticed < kSecond ? 3u : 4u) << first;
    }
  }
}

// Rank 2's dump was taken ten seconds before the others, which made ten more operations with it and then got stuck.
TEST(ForeignDumps, ADumpTakenBeforeTheOthersIsLeftOut) {
  for (const bool torn_down : {false, true}) {
    Bundle b = Dumps({{700, 9000 * kSecond}, {700, 9000 * kSecond}, {690, 8990 * kSecond}, {700, 9000 * kSecond}});
    for (size_t r : {0, 1, 3}) {
      // If this operation was aborted, the operations before it were aborted too, and only look complete.
      b.ranks[r].ops.push_back(b.ranks[r].ops.back());
      b.ranks[r].ops.back().seq++;
      b.ranks[r].ops.back().state = OpState::kIncomplete;
      b.ranks[r].ops.back().retired = torn_down;
    }
    LeaveOutForeignDumps(&b);
    EXPECT_EQ(b.ranks.size(), torn_down ? 4u : 3u);
  }
}

// Rank 2's dump was taken while the others were still making calls. If all dumps were taken at once, its GPU is
// behind.
TEST(ForeignDumps, ADumpTakenWhileTheOthersMadeCallsIsLeftOut) {
  for (const bool with_the_others : {false, true}) {
    const int64_t start = 9000 * kSecond, later = start + 600 * kSecond;
    Bundle b = Dumps({{700, start}, {700, start}, {695, start}, {700, start}});
    for (size_t r : {0, 1, 3}) {
      b.ranks[r].ops.push_back(b.ranks[r].ops.back());
      b.ranks[r].ops.back().seq++;
      b.ranks[r].ops.back().state = OpState::kIncomplete;
    }
    for (Rank& rank : b.ranks) rank.captured_ns = later;
    if (!with_the_others) b.ranks[2].captured_ns = start + kSecond / 10;
    LeaveOutForeignDumps(&b);
    EXPECT_EQ(b.ranks.size(), with_the_others ? 4u : 3u);
  }
}

// Each rank's issued and completed counts for two groups, and one entry in flight.
Bundle ActiveDumps(const std::vector<std::pair<int64_t, int64_t>>& issued_and_time,
                   int64_t second_group_issued = kUnknown) {
  Bundle b;
  b.comms.resize(2);
  b.comms[1].id = "0/2";
  for (size_t r = 0; r < issued_and_time.size(); ++r) {
    Rank rank;
    rank.rank = static_cast<int32_t>(r);
    rank.source = Source::kFlightRecorder;
    rank.only_active = true;
    for (uint32_t comm = 0; comm < 2; ++comm) {
      Membership ms;
      ms.comm = comm;
      ms.issued = comm == 1 && second_group_issued != kUnknown ? second_group_issued : issued_and_time[r].first;
      ms.completed = ms.issued - 1;
      rank.memberships.push_back(ms);
    }
    Op op;
    op.membership = 0;
    op.kind = ring::CallKind::kAllReduce;
    op.seq = issued_and_time[r].first;
    op.enter_ns = issued_and_time[r].second;
    rank.ops.push_back(op);
    b.ranks.push_back(rank);
  }
  return b;
}

TEST(ForeignDumps, CountsOfTwoGroupsRevealAForeignDumpOfActiveOperations) {
  const int64_t now = 90'000 * kSecond;
  Bundle left = ActiveDumps({{700, now}, {700, now}, {5, now - 7200 * kSecond}, {701, now}});
  LeaveOutForeignDumps(&left);
  ASSERT_EQ(left.ranks.size(), 3u);
  EXPECT_EQ(left.ranks[2].rank, 3);
  ASSERT_EQ(left.problems.size(), 1u);
  EXPECT_EQ(left.problems[0].rank, 2);
}

// Only some of the dumps contain completed operations.
TEST(ForeignDumps, FullDumpsAreComparedWithThoseOfActiveOperations) {
  const int64_t now = 90'000 * kSecond;
  Bundle b = ActiveDumps({{700, now}, {700, now}, {5, now - 7200 * kSecond}, {700, now}});
  b.ranks[2].only_active = false;
  LeaveOutForeignDumps(&b);
  ASSERT_EQ(b.ranks.size(), 3u);
  EXPECT_EQ(b.ranks[2].rank, 3);
}

// Three of four members of a group belong to another run. The job's other ranks decide.
TEST(ForeignDumps, TheWholeJobDecidesWhichTimeIsUsual) {
  const int64_t now = 90'000 * kSecond, before = now - 7200 * kSecond;
  Bundle b =
      ActiveDumps({{5, before}, {5, before}, {5, before}, {700, now}, {700, now}, {700, now}, {700, now}, {700, now}});
  b.comms.resize(4);
  for (Rank& rank : b.ranks) {
    if (rank.rank < 4) continue;
    for (Membership& ms : rank.memberships) ms.comm += 2;
  }
  LeaveOutForeignDumps(&b);
  ASSERT_EQ(b.ranks.size(), 5u);
  EXPECT_EQ(b.ranks[0].rank, 3);
}

TEST(ForeignDumps, ALateDumpOfActiveOperationsStays) {
  const int64_t now = 90'000 * kSecond;
  // This rank has been behind the others for ten minutes, which a watchdog allows.
  Bundle late = ActiveDumps({{700, now}, {700, now}, {690, now - 600 * kSecond}, {700, now}});
  // The others have been ahead for a long time, but in one group only. The root of a broadcast may complete early.
  Bundle ahead = ActiveDumps({{700, now}, {700, now}, {690, now - 7200 * kSecond}, {700, now}}, 30);
  // This rank waits for an operation that the others have not begun.
  Bundle waiting = ActiveDumps({{700, now}, {700, now}, {701, now - 7200 * kSecond}, {700, now}});
  Bundle idle = ActiveDumps({{700, now}, {700, now}, {5, 0}, {700, now}});
  idle.ranks[2].ops.clear();
  for (Bundle* b : {&late, &ahead, &waiting, &idle}) {
    LeaveOutForeignDumps(b);
    EXPECT_EQ(b->ranks.size(), 4u);
    EXPECT_TRUE(b->problems.empty());
  }
}

}  // namespace
}  // namespace lockstep
