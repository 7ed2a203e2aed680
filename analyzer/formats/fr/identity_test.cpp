// Tests dumps whose file name contains a wrong rank. The groups in their pg_config identify the right one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/formats/fr/loader.h"
#include "analyzer/testing/fr_dumps.h"

namespace lockstep {
namespace {

using fr_test::DumpFolder;
using fr_test::FrDump;
using fr_test::LoadFiles;
using fr_test::ToPickle;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kRanks = 8;

// Returns a dump with 10 + `rank` operations, from a job of eight ranks. Its groups are pairs, and ranks of equal
// parity.
FrDump DumpOf(int rank, bool pairs = true) {
  FrDump dump;
  dump.groups[0].ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  const int pair = rank / 2 * 2;
  if (pairs)
    dump.groups.push_back(
        {.name = std::to_string(1 + rank / 2), .desc = "PAIR", .ranks = {pair, pair + 1}, .pg_id = 1});
  std::vector<int32_t> parity;
  for (int r = rank % 2; r < kRanks; r += 2) parity.push_back(r);
  dump.groups.push_back({.name = std::to_string(5 + rank % 2), .desc = "PARITY", .ranks = parity, .pg_id = 2});
  for (int seq = 1; seq <= 10 + rank; seq++) dump.entries.push_back({.seq = seq});
  return dump;
}

// `content[i]` is the rank whose dump has the name of rank i.
Bundle Load(const std::vector<int>& content, bool pairs = true) {
  DumpFolder folder;
  for (size_t i = 0; i < content.size(); i++)
    folder.WriteRank(static_cast<int>(i), ToPickle(DumpOf(content[i], pairs)));
  return LoadFiles(folder.Files());
}

std::vector<std::pair<int, size_t>> Read(const Bundle& bundle) {
  std::vector<std::pair<int, size_t>> out;
  for (const Rank& rank : bundle.ranks) out.emplace_back(rank.rank, rank.ops.size());
  return out;
}

std::vector<std::pair<int, size_t>> Everybody() {
  std::vector<std::pair<int, size_t>> out;
  for (int rank = 0; rank < kRanks; rank++) out.emplace_back(rank, static_cast<size_t>(10 + rank));
  return out;
}

void ExpectGroupsAsConfigured(const Bundle& bundle) {
  for (const Communicator& comm : bundle.comms) {
    EXPECT_FALSE(comm.members_inferred) << comm.id;
    EXPECT_EQ(comm.size, comm.name == "default_pg" ? kRanks : comm.name == "PARITY" ? 4 : 2) << comm.id;
  }
}

TEST(FrIdentity, RightNamesCauseNoMessage) {
  const Bundle bundle = Load({0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_THAT(bundle.problems, IsEmpty());
  EXPECT_EQ(Read(bundle), Everybody());
}

TEST(FrIdentity, TwoFilesWithSwappedNamesAreIdentified) {
  const Bundle bundle = Load({0, 6, 2, 3, 4, 5, 1, 7});
  EXPECT_EQ(Read(bundle), Everybody());
  ExpectGroupsAsConfigured(bundle);
  ASSERT_THAT(bundle.problems, SizeIs(2));
  const Problem& first = bundle.problems[0].rank == 1 ? bundle.problems[0] : bundle.problems[1];
  EXPECT_EQ(first.rank, 1);
  EXPECT_THAT(first.text,
              AllOf(HasSubstr("its name contains rank 6"), HasSubstr("rank 1 is the only rank in all its groups")));
  EXPECT_THAT(first.path, HasSubstr("nccl_trace_rank_6"));
}

TEST(FrIdentity, ACopyUnderAnotherNameIsNotAnotherRank) {
  const Bundle bundle = Load({0, 1, 2, 3, 4, 2, 6, 7});
  std::vector<std::pair<int, size_t>> expected = Everybody();
  expected.erase(expected.begin() + 5);
  EXPECT_EQ(Read(bundle), expected);
  ExpectGroupsAsConfigured(bundle);
  EXPECT_EQ(bundle.ranks_expected, kRanks);
}

TEST(FrIdentity, NamesThatAreAllOffByOneAreIdentified) {
  DumpFolder folder;
  for (int rank = 0; rank < kRanks; rank++) folder.WriteRank(rank + 1, ToPickle(DumpOf(rank)));
  const Bundle bundle = LoadFiles(folder.Files());
  EXPECT_EQ(Read(bundle), Everybody());
  ExpectGroupsAsConfigured(bundle);
}

// Without the pairs, several ranks fit all groups of a file.
TEST(FrIdentity, AFileThatMayBelongToSeveralRanksIsIgnored) {
  const Bundle bundle = Load({0, 1, 2, 3, 4, 2, 6, 7}, false);
  std::vector<std::pair<int, size_t>> expected = Everybody();
  expected.erase(expected.begin() + 5);
  EXPECT_EQ(Read(bundle), expected);
  ASSERT_THAT(bundle.problems, SizeIs(1));
  EXPECT_THAT(bundle.problems[0].text,
              AllOf(HasSubstr("not used: its name contains rank 5"), HasSubstr("rename the file")));
  ExpectGroupsAsConfigured(bundle);
}

// A job inside a job numbers its own ranks, in lists that need not begin with 0. Names and lists then differ
// everywhere.
TEST(FrIdentity, ListsWithOtherNumbersReassignNoRank) {
  DumpFolder folder;
  for (int rank = 0; rank < kRanks; rank++) {
    FrDump dump = DumpOf(rank, false);
    dump.groups.erase(dump.groups.begin());
    for (int32_t& member : dump.groups[0].ranks) member += 20;
    folder.WriteRank(rank, ToPickle(dump));
  }
  const Bundle bundle = LoadFiles(folder.Files());
  EXPECT_EQ(Read(bundle), Everybody());
}

TEST(FrIdentity, AListNumberedWithinItsGroupIsNoContradiction) {
  DumpFolder folder;
  for (int rank = 0; rank < kRanks; rank++) {
    FrDump dump = DumpOf(rank);
    dump.groups[1].ranks = {0, 1};
    folder.WriteRank(rank, ToPickle(dump));
  }
  EXPECT_EQ(Read(LoadFiles(folder.Files())), Everybody());
}

}  // namespace
}  // namespace lockstep
