// The time of a dump, and dumps of several jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "analyzer/testing/fr_dumps.h"

namespace lockstep {
namespace {

using fr_test::DumpFolder;
using fr_test::FrDump;
using fr_test::kFirstEntryNs;
using fr_test::kTimeoutNs;
using fr_test::LoadFiles;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int64_t kSecond = 1'000'000'000;

// Three collectives, the last `open` of them unfinished.
FrDump Dump(int open) {
  FrDump dump;
  dump.groups = {{.enqueued = 3, .completed = 3 - open}};
  for (int seq = 1; seq <= 3; ++seq) {
    const bool done = seq <= 3 - open;
    dump.entries.push_back({.seq = seq, .state = done ? "completed" : "scheduled", .retired = done});
  }
  return dump;
}

// Two ranks; `later_ns`: from the newest entry to the time of the file.
Bundle Written(std::vector<int64_t> later_ns, std::vector<int> open) {
  DumpFolder folder;
  for (int rank = 0; rank < 2; ++rank) {
    const size_t r = static_cast<size_t>(rank);
    fr_test::SetFileTime(folder.WriteRank(rank, fr_test::ToPickle(Dump(open[r]))),
                         kFirstEntryNs + 2'000'000 + later_ns[r]);
  }
  return LoadFiles(folder.Files());
}

TEST(FrTaken, AFileWrittenSoonIsThatOld) {
  const Bundle bundle = Written({20 * kSecond, 21 * kSecond}, {1, 1});
  EXPECT_EQ(bundle.ranks[0].captured_ns, kFirstEntryNs + 2'000'000 + 20 * kSecond);
}

TEST(FrTaken, AsLateAsTheWatchdogIsNoCopy) {
  EXPECT_GT(Written({kTimeoutNs + kSecond, kTimeoutNs + 30 * kSecond}, {1, 1}).ranks[1].captured_ns, 0);
  // Without an unfinished operation, or long after its timeout, the time is unknown.
  EXPECT_EQ(Written({kTimeoutNs + kSecond, kTimeoutNs + kSecond}, {0, 0}).ranks[1].captured_ns, 0);
  EXPECT_EQ(Written({6 * kTimeoutNs, 6 * kTimeoutNs}, {1, 1}).ranks[1].captured_ns, 0);
}

TEST(FrTaken, FilesWrittenOneAfterTheOtherAreCopies) {
  const Bundle bundle = Written({20 * kSecond, 36 * kSecond}, {1, 1});
  EXPECT_EQ(bundle.ranks[0].captured_ns, 0);
  EXPECT_EQ(bundle.ranks[1].captured_ns, 0);
}

// Rank 1 noticed a completion that rank 0 did not: the job was dumped while it ran.
TEST(FrTaken, AnEndThatSomeHaveNotNoticedIsOfTheMomentOfTheNewestEntry) {
  const Bundle bundle = Written({6 * kTimeoutNs, 6 * kTimeoutNs}, {2, 1});
  EXPECT_EQ(bundle.ranks[0].captured_ns, kFirstEntryNs + 2'000'000);
  EXPECT_EQ(bundle.ranks[1].captured_ns, kFirstEntryNs + 2'000'000);
}

TEST(FrTaken, SetsOfTheSameRanksInTwoFoldersAreTwoJobs) {
  DumpFolder folder;
  std::vector<std::string> files;
  for (const char* replica : {"replica_0", "replica_1"}) {
    std::filesystem::create_directory(folder.path() + "/" + replica);
    for (int rank = 0; rank < 2; ++rank) {
      const bool hangs = std::string(replica) == "replica_1";
      files.push_back(folder.Write(std::string(replica) + "/nccl_trace_rank_" + std::to_string(rank),
                                   fr_test::ToPickle(Dump(hangs && rank == 0 ? 1 : 0))));
    }
  }
  const Bundle bundle = LoadFiles(files);
  ASSERT_THAT(bundle.ranks, SizeIs(2));
  for (const Rank& rank : bundle.ranks) EXPECT_THAT(rank.path, HasSubstr("replica_1"));
  ASSERT_THAT(bundle.problems, SizeIs(1));
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("another job or attempt"));
}

}  // namespace
}  // namespace lockstep
