// Tests how the capture time of a dump is determined, and dumps of several jobs.
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

// A dump with three collectives; the last `open` of them are unfinished.
FrDump Dump(int open) {
  FrDump dump;
  dump.groups = {{.enqueued = 3, .completed = 3 - open}};
  for (int seq = 1; seq <= 3; ++seq) {
    const bool done = seq <= 3 - open;
    dump.entries.push_back({.seq = seq, .state = done ? "completed" : "scheduled", .retired = done});
  }
  return dump;
}

// Loads two ranks' dumps. `later_ns` is the time from the newest entry to the file's modification.
Bundle Written(std::vector<int64_t> later_ns, std::vector<int> open) {
  DumpFolder folder;
  for (int rank = 0; rank < 2; ++rank) {
    const size_t r = static_cast<size_t>(rank);
    fr_test::SetFileTime(folder.WriteRank(rank, fr_test::ToPickle(Dump(open[r]))),
                         kFirstEntryNs + 2'000'000 + later_ns[r]);
  }
  return LoadFiles(folder.Files());
}

TEST(FrTaken, AFileWrittenSoonAfterItsNewestEntryIsThatOld) {
  const Bundle bundle = Written({20 * kSecond, 21 * kSecond}, {1, 1});
  EXPECT_EQ(bundle.ranks[0].captured_ns, kFirstEntryNs + 2'000'000 + 20 * kSecond);
}

TEST(FrTaken, AFileAsLateAsTheWatchdogIsNotACopy) {
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

// Rank 1 noticed a completion that rank 0 did not, so the job was dumped while it ran.
TEST(FrTaken, ACompletionThatSomeRanksMissedDatesTheDumpToTheNewestEntry) {
  const Bundle bundle = Written({6 * kTimeoutNs, 6 * kTimeoutNs}, {2, 1});
  EXPECT_EQ(bundle.ranks[0].captured_ns, kFirstEntryNs + 2'000'000);
  EXPECT_EQ(bundle.ranks[1].captured_ns, kFirstEntryNs + 2'000'000);
}

// The hosts' clocks differ by seconds, so the ranks' times cannot be compared.
TEST(FrTaken, AMissedCompletionIsRecentByItsOwnRanksClock) {
  DumpFolder folder;
  for (int rank = 0; rank < 2; ++rank) {
    FrDump dump = Dump(rank == 0 ? 2 : 1);
    for (size_t i = 0; i < 3; ++i)
      dump.entries[i].created_ns = kFirstEntryNs + static_cast<int64_t>(i) * 1'000'000 + rank * 7 * kSecond;
    fr_test::SetFileTime(folder.WriteRank(rank, fr_test::ToPickle(dump)), kFirstEntryNs + 6 * kTimeoutNs);
  }
  const Bundle bundle = LoadFiles(folder.Files());
  EXPECT_EQ(bundle.ranks[0].captured_ns, kFirstEntryNs + 2'000'000);
  EXPECT_EQ(bundle.ranks[1].captured_ns, kFirstEntryNs + 2'000'000 + 7 * kSecond);
}

// The group's counter is behind the states in the dump, because the watchdog had not checked since.
TEST(FrTaken, CompletionsThatTheWatchdogHadNotNoticedDateTheDumpToTheNewestEntry) {
  for (const int behind : {1, 2}) {
    DumpFolder folder;
    for (int rank = 0; rank < 3; ++rank) {
      FrDump dump = Dump(1);
      if (rank < behind) {
        dump.groups[0].completed = 1;
        dump.entries[1].retired = false;
      } else {
        dump.entries[0].completed_ns = dump.entries[1].completed_ns = kFirstEntryNs + kSecond;
      }
      fr_test::SetFileTime(folder.WriteRank(rank, fr_test::ToPickle(dump)), kFirstEntryNs + 6 * kTimeoutNs);
    }
    EXPECT_EQ(LoadFiles(folder.Files()).ranks[0].captured_ns, behind == 2 ? kFirstEntryNs + 2'000'000 : 0);
  }
}

// If failed operations look completed, an operation that a member never issued has failed.
TEST(FrTaken, AnEndWithoutAllMembersIsAFailure) {
  DumpFolder folder;
  for (int rank = 0; rank < 3; ++rank) {
    FrDump dump = Dump(rank == 0 ? 1 : 0);
    if (rank == 2) dump.entries.pop_back();
    dump.groups[0].enqueued = static_cast<int>(dump.entries.size());
    dump.groups[0].completed = rank == 1 ? 3 : 2;
    fr_test::SetFileTime(folder.WriteRank(rank, fr_test::ToPickle(dump)), kFirstEntryNs + 6 * kTimeoutNs);
  }
  for (const Rank& rank : LoadFiles(folder.Files()).ranks) EXPECT_EQ(rank.captured_ns, 0) << rank.rank;
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

// Every running job has unfinished operations; only the hung one has an operation past its timeout.
TEST(FrTaken, OfTwoReplicasTheOnePastItsTimeoutIsUsed) {
  DumpFolder folder;
  std::vector<std::string> files;
  for (const bool hangs : {true, false}) {
    const std::string replica = hangs ? "replica_0" : "replica_1";
    std::filesystem::create_directory(folder.path() + "/" + replica);
    for (int rank = 0; rank < 2; ++rank) {
      FrDump dump = Dump(1);
      dump.entries.insert(dump.entries.begin(), {.seq = 0, .state = "completed", .retired = true});
      for (fr_test::FrEntry& entry : dump.entries)
        entry.created_ns = kFirstEntryNs + entry.seq * 1'000'000 + (hangs || entry.seq == 0 ? 0 : kTimeoutNs);
      files.push_back(folder.Write(replica + "/nccl_trace_rank_" + std::to_string(rank), fr_test::ToPickle(dump)));
      fr_test::SetFileTime(files.back(), kFirstEntryNs + kTimeoutNs + 5 * kSecond);
    }
  }
  const Bundle bundle = LoadFiles(files);
  ASSERT_THAT(bundle.ranks, SizeIs(2));
  for (const Rank& rank : bundle.ranks) EXPECT_THAT(rank.path, HasSubstr("replica_0"));
}

// The first attempt timed out. The second one began afterwards and hangs, too.
TEST(FrTaken, TheLaterAttemptIsUsed) {
  DumpFolder folder;
  std::vector<std::string> files;
  for (const int attempt : {0, 1}) {
    const std::string name = "attempt_" + std::to_string(attempt);
    std::filesystem::create_directory(folder.path() + "/" + name);
    for (int rank = 0; rank < 2; ++rank) {
      FrDump dump = Dump(1);
      for (fr_test::FrEntry& entry : dump.entries)
        entry.created_ns = kFirstEntryNs + entry.seq * 1'000'000 + attempt * 2 * kTimeoutNs;
      files.push_back(folder.Write(name + "/nccl_trace_rank_" + std::to_string(rank), fr_test::ToPickle(dump)));
      fr_test::SetFileTime(files.back(), kFirstEntryNs + (1 + 5 * attempt) * kTimeoutNs + 5 * kSecond);
    }
  }
  for (const Rank& rank : LoadFiles(files).ranks) EXPECT_THAT(rank.path, HasSubstr("attempt_1"));
}

}  // namespace
}  // namespace lockstep
