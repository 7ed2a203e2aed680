#include "analyzer/formats/fr/older.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/formats/fr/loader.h"
#include "analyzer/testing/fr_dumps.h"

namespace lockstep {
namespace {

using fr_test::DumpFolder;
using fr_test::FrDump;
using fr_test::Json;
using ::testing::HasSubstr;

constexpr int kMembers = 4, kCallsOfEach = 1500;
constexpr size_t kKeptOfEach = 256;

// A job that alternates between two kinds of calls, all complete.
std::vector<FrDump> LongDumps() {
  std::vector<FrDump> dumps(kMembers);
  for (FrDump& dump : dumps) {
    dump.groups[0].ranks = {0, 1, 2, 3};
    dump.groups[0].enqueued = dump.groups[0].started = dump.groups[0].completed = kCallsOfEach;
    for (int seq = 1; seq <= kCallsOfEach; ++seq) {
      dump.entries.push_back({.op = seq % 2 == 0 ? "nccl:all_reduce" : "nccl:all_to_all",
                              .seq = seq,
                              .state = "completed",
                              .retired = true});
    }
  }
  return dumps;
}

Bundle LoadPart(const std::vector<std::string>& files) {
  Bundle bundle;
  LoadLimits limits;
  limits.entries = kMembers * kKeptOfEach;
  LoadFlightRecorder(files, &bundle, limits);
  return bundle;
}

Bundle LoadPart(const std::vector<FrDump>& dumps) {
  DumpFolder folder;
  for (int rank = 0; rank < kMembers; ++rank)
    folder.WriteRank(rank, fr_test::ToPickle(dumps[static_cast<size_t>(rank)]));
  return LoadPart(folder.Files());
}

const Op* FindCall(const Rank& rank, int64_t seq) {
  const auto at = std::ranges::find(rank.ops, seq, &Op::seq);
  return at == rank.ops.end() ? nullptr : &*at;
}

std::string NoteOf(const Bundle& bundle) {
  for (const Problem& problem : bundle.problems) {
    if (problem.note) return problem.text;
  }
  return "";
}

TEST(OlderCalls, OnlyTheNewestOfManyAreLoaded) {
  const Bundle bundle = LoadPart(LongDumps());
  ASSERT_EQ(bundle.ranks.size(), size_t{kMembers});
  for (const Rank& rank : bundle.ranks) {
    EXPECT_EQ(rank.ops.size(), kKeptOfEach);
    EXPECT_EQ(rank.ops.back().seq, kCallsOfEach);
    EXPECT_TRUE(rank.ops.front().after_gap);
    EXPECT_FALSE(rank.ops.back().after_gap);
    EXPECT_EQ(rank.not_loaded, kCallsOfEach - kKeptOfEach);
    EXPECT_EQ(rank.memberships[0].not_loaded, static_cast<int64_t>(kCallsOfEach - kKeptOfEach));
    EXPECT_EQ(rank.memberships[0].unrecorded, 0);
    EXPECT_EQ(rank.memberships[0].completed, kCallsOfEach);
  }
  EXPECT_THAT(NoteOf(bundle), HasSubstr("of 6000 recorded operations, about the newest 256 of each rank"));
  EXPECT_THAT(NoteOf(bundle), HasSubstr("no differences"));
  EXPECT_EQ(std::ranges::count_if(bundle.problems, [](const Problem& problem) { return !problem.note; }), 0);
}

TEST(OlderCalls, FewAreAllLoaded) {
  std::vector<FrDump> dumps = LongDumps();
  for (FrDump& dump : dumps) dump.entries.erase(dump.entries.begin(), dump.entries.end() - 2 * kKeptOfEach);
  const Bundle bundle = LoadPart(dumps);
  for (const Rank& rank : bundle.ranks) {
    EXPECT_EQ(rank.ops.size(), 2 * kKeptOfEach);
    EXPECT_EQ(rank.not_loaded, 0u);
  }
  EXPECT_EQ(NoteOf(bundle), "");
}

TEST(OlderCalls, ACallThatDiffersIsLoadedFromEveryMember) {
  std::vector<FrDump> dumps = LongDumps();
  dumps[2].entries[99].input = dumps[2].entries[99].output = {{8, 8}};
  for (const bool together : {false, true}) {
    SCOPED_TRACE(together ? "one JSON file" : "a pickle for each rank");
    Bundle bundle;
    if (together) {
      Json all;
      for (size_t rank = 0; rank < dumps.size(); ++rank) all[std::to_string(rank)] = ToValue(dumps[rank], true);
      DumpFolder folder;
      bundle = LoadPart({folder.Write("all.json", all.dump())});
    } else {
      bundle = LoadPart(dumps);
    }
    ASSERT_EQ(bundle.ranks.size(), size_t{kMembers});
    for (const Rank& rank : bundle.ranks) {
      ASSERT_NE(FindCall(rank, 100), nullptr) << rank.rank;
      EXPECT_EQ(FindCall(rank, 100)->input_elements, rank.rank == 2 ? 64 : 16);
      EXPECT_EQ(FindCall(rank, 300), nullptr);
      EXPECT_EQ(rank.not_loaded, kCallsOfEach - rank.ops.size());
      EXPECT_EQ(rank.memberships[0].not_loaded, static_cast<int64_t>(rank.not_loaded));
    }
    EXPECT_THAT(NoteOf(bundle), HasSubstr("the first that differ were loaded too"));
  }
}

TEST(OlderCalls, AnAllToAllMustBalanceOverAllMembers) {
  std::vector<FrDump> dumps = LongDumps();
  // Legal: rank 0 sends more than it receives, and rank 1 the other way round.
  dumps[0].entries[100].input = dumps[1].entries[100].output = {{6, 4}};
  EXPECT_THAT(NoteOf(LoadPart(dumps)), HasSubstr("no differences"));
  dumps[3].entries[400].input = {{6, 4}};
  const Bundle bundle = LoadPart(dumps);
  EXPECT_NE(FindCall(bundle.ranks[0], 401), nullptr);
  EXPECT_EQ(FindCall(bundle.ranks[0], 101), nullptr);
}

TEST(OlderCalls, UnfinishedCallsAreLoadedHoweverOld) {
  std::vector<FrDump> dumps = LongDumps();
  for (FrDump& dump : dumps) {
    dump.groups.push_back(dump.groups[0]);
    dump.groups[1].name = "1", dump.groups[1].pg_id = 1;
    dump.groups[1].enqueued = dump.groups[1].started = 1, dump.groups[1].completed = -1;
    dump.entries.insert(dump.entries.begin() + 50, {.seq = 1, .pg = "1", .pg_id = 1, .state = "started"});
  }
  for (const Rank& rank : LoadPart(dumps).ranks) {
    EXPECT_EQ(rank.ops.size(), kKeptOfEach + 1);
    EXPECT_EQ(rank.ops.front().state, OpState::kStarted);
    EXPECT_EQ(rank.memberships[1].not_loaded, 0);
  }
}

TEST(OlderCalls, EveryGroupKeepsItsNewestCalls) {
  std::vector<FrDump> dumps = LongDumps();
  for (FrDump& dump : dumps) {
    dump.groups.push_back(dump.groups[0]);
    dump.groups[1].name = "1", dump.groups[1].pg_id = 1;
    dump.groups[1].enqueued = dump.groups[1].started = dump.groups[1].completed = 100;
    for (int seq = 100; seq > 0; --seq) {
      dump.entries.insert(dump.entries.begin(),
                          {.seq = seq, .pg = "1", .pg_id = 1, .state = "completed", .retired = true});
    }
  }
  dumps[1].entries[40].input = {{8, 8}};
  for (const Rank& rank : LoadPart(dumps).ranks) {
    const auto group = [&rank](int64_t seq) {
      return std::ranges::any_of(rank.ops, [&](const Op& op) { return op.membership == 1 && op.seq == seq; });
    };
    EXPECT_TRUE(group(100) && group(69));
    EXPECT_FALSE(group(68) || group(20));
    EXPECT_TRUE(group(41)) << "another size on rank 1";
  }
}

}  // namespace
}  // namespace lockstep
