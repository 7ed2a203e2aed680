// Tests fields with a meaning that depends on the backend. The loader detects the backend from the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "analyzer/testing/fr_dumps.h"

namespace lockstep {
namespace {

using fr_test::FrDump;
using fr_test::FrEntry;
using fr_test::LoadDumps;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<OpState> StatesOf(const Rank& rank) {
  std::vector<OpState> states;
  for (const Op& op : rank.ops) states.push_back(op.state);
  return states;
}

// gloo completes operations out of order, and counts the last completed one.
TEST(FrBackends, RetiredMeansCompletedIfTheBackendMarksNoCompletions) {
  FrDump dump;
  dump.groups = {{.enqueued = 4, .completed = 4}};
  dump.entries = {{.op = "gloo:all_reduce", .seq = 1, .retired = true},
                  {.op = "gloo:all_reduce", .seq = 2, .retired = true},
                  {.op = "gloo:all_reduce", .seq = 3},
                  {.op = "gloo:all_reduce", .seq = 4, .retired = true}};
  const Bundle bundle = LoadDumps({dump});
  EXPECT_EQ(StatesOf(bundle.ranks[0]), (std::vector<OpState>{OpState::kCompleted, OpState::kCompleted,
                                                             OpState::kIncomplete, OpState::kCompleted}));
  EXPECT_EQ(bundle.ranks[0].memberships[0].completed, 2);
  EXPECT_TRUE(bundle.ranks[0].ends_untold);
}

// A watchdog gives up on one operation at a time. This backend retires every operation when it is issued, and does not
// count completions.
TEST(FrBackends, OperationsThatAreAllRetiredDidNotTimeOut) {
  for (const int64_t seq : {int64_t{1}, int64_t{2}}) {
    FrDump dump;
    dump.groups = {{.enqueued = seq}};
    for (int64_t i = 1; i <= seq; ++i) dump.entries.push_back({.op = "custom:all_reduce", .seq = i, .retired = true});
    const Bundle bundle = LoadDumps({dump});
    for (const Op& op : bundle.ranks[0].ops) EXPECT_EQ(op.state, seq == 1 ? OpState::kIncomplete : OpState::kCompleted);
    EXPECT_EQ(bundle.ranks[0].ends_untold, seq > 1);
  }
}

// A job uses gloo for a checkpoint group and NCCL for the rest; one dump contains both.
TEST(FrBackends, EachBackendOfADumpMarksCompletionsInItsWay) {
  FrDump dump;
  dump.groups = {{.enqueued = 2, .completed = 1},
                 {.name = "1", .desc = "CHECKPOINT", .pg_id = 1, .enqueued = 2, .completed = 1}};
  dump.entries = {{.op = "nccl:all_reduce", .seq = 1, .state = "completed", .retired = true},
                  {.op = "gloo:all_reduce", .seq = 1, .pg = "1", .desc = "CHECKPOINT", .pg_id = 1, .retired = true},
                  {.op = "gloo:all_reduce", .seq = 2, .pg = "1", .desc = "CHECKPOINT", .pg_id = 1, .retired = true},
                  {.op = "nccl:all_reduce", .seq = 2, .retired = true}};
  const Bundle bundle = LoadDumps({dump});
  EXPECT_EQ(StatesOf(bundle.ranks[0]), (std::vector<OpState>{OpState::kCompleted, OpState::kCompleted,
                                                             OpState::kCompleted, OpState::kIncomplete}));
  EXPECT_FALSE(bundle.ranks[0].ends_untold);
}

// torchcomms sets the state to "started" at the call and never changes it.
TEST(FrBackends, AStateThatIsNeverUpdatedShowsNoStart) {
  FrDump dump;
  dump.pg_status = false;
  dump.entries = {{.op = "ncclx:all_reduce", .seq = 1, .state = "started", .retired = true},
                  {.op = "ncclx:all_reduce", .seq = 2, .state = "started"}};
  const Bundle bundle = LoadDumps({dump});
  EXPECT_EQ(StatesOf(bundle.ranks[0]), (std::vector<OpState>{OpState::kCompleted, OpState::kIncomplete}));
  EXPECT_FALSE(bundle.ranks[0].start_recorded);
}

// PyTorch's nccl2 backend writes the start time at completion, and op_ids into pg_status.
FrDump Nccl2() {
  FrDump dump;
  dump.groups = {{.enqueued = 3, .completed = 1}};
  for (int seq = 1; seq <= 4; ++seq) {
    FrEntry entry{.op = "nccl2:all_reduce", .seq = seq, .op_id = seq - 1};
    if (seq <= 2) {
      entry.state = "completed";
      entry.retired = true;
      entry.started_ns = entry.completed_ns = fr_test::kFirstEntryNs + seq * 5'000'000;
    }
    dump.entries.push_back(entry);
  }
  return dump;
}

TEST(FrBackends, AStartTimeWrittenAtCompletionIsIgnored) {
  const Bundle bundle = LoadDumps({Nccl2()});
  EXPECT_FALSE(bundle.ranks[0].start_recorded);
  EXPECT_EQ(bundle.ranks[0].ops[3].state, OpState::kIncomplete);
}

TEST(FrBackends, CountersByOpIdBecomeTheNumbersOfEntries) {
  FrDump dump = Nccl2();
  dump.entries.erase(dump.entries.begin(), dump.entries.begin() + 2);  // only the counters show these operations
  const Bundle bundle = LoadDumps({dump});
  EXPECT_EQ(bundle.ranks[0].memberships[0].issued, 4);
  EXPECT_EQ(bundle.ranks[0].memberships[0].completed, 2);
}

// PyTorch numbers sends and receives on gloo with op_id, and keeps no entry for them.
FrDump GlooWithSends(std::vector<int64_t> op_ids) {
  FrDump dump;
  dump.groups = {{.enqueued = 3, .completed = 3}};
  for (size_t i = 0; i < op_ids.size(); ++i) {
    dump.entries.push_back(
        {.op = "gloo:all_reduce", .seq = static_cast<int64_t>(i) + 1, .state = "completed", .op_id = op_ids[i]});
  }
  return dump;
}

TEST(FrBackends, CallsWithoutAnEntryAreCounted) {
  const auto unrecorded = [](const FrDump& dump) { return LoadDumps({dump}).ranks[0].memberships[0].unrecorded; };
  EXPECT_EQ(unrecorded(GlooWithSends({7, 14, 20})), 11);
  EXPECT_EQ(unrecorded(GlooWithSends({1, 2, 3})), 0);
  EXPECT_EQ(unrecorded(GlooWithSends({-1, -1, -1})), 0) << "old dumps have no op_id";
  FrDump gone = GlooWithSends({7, 14, 20});
  gone.entries.erase(gone.entries.begin() + 1);
  EXPECT_EQ(unrecorded(gone), 0) << "the counted calls have lost their entries";
}

// Two groups with operations that are numbered together from `first` on.
FrDump Torchcomms(int64_t first) {
  FrDump dump;
  dump.pg_status = false;
  dump.groups = {{.name = "world", .ranks = {0, 1}}, {.name = "pair", .ranks = {0, 1}, .pg_id = 1}};
  for (int64_t n = 0; n < 6; ++n) {
    dump.entries.push_back({.op = n == 4 ? "nccl:send" : "nccl:all_reduce",
                            .seq = first + n,
                            .pg = n % 3 == 0 ? "world" : "pair",
                            .desc = "nccl",
                            .pg_id = n % 3 == 0 ? 0 : 1,
                            .state = "completed",
                            .retired = true});
  }
  return dump;
}

TEST(FrBackends, OneNumberForAllGroupsIsSplitByGroup) {
  const Bundle bundle = LoadDumps({Torchcomms(0), Torchcomms(0)});
  ASSERT_THAT(bundle.ranks[0].ops, SizeIs(6));
  std::vector<int64_t> numbers;
  for (const Op& op : bundle.ranks[0].ops) numbers.push_back(op.seq);
  EXPECT_EQ(numbers, (std::vector<int64_t>{1, 1, 2, 2, 1, 3}));
  EXPECT_EQ(bundle.ranks[0].ops[4].root_or_peer, 1);
  EXPECT_EQ(bundle.ranks[1].ops[4].root_or_peer, 0);
  for (const Membership& ms : bundle.ranks[0].memberships) EXPECT_EQ(ms.not_loaded, 0);
  EXPECT_THAT(bundle.problems, IsEmpty());
}

TEST(FrBackends, OneNumberForAllGroupsIsIgnoredWithoutItsBeginning) {
  const Bundle bundle = LoadDumps({Torchcomms(4711)});
  EXPECT_THAT(bundle.ranks[0].ops, IsEmpty());
  EXPECT_TRUE(bundle.ranks[0].damaged);
  ASSERT_THAT(bundle.problems, SizeIs(1));
  EXPECT_THAT(bundle.problems[0].text, ::testing::HasSubstr("TORCHCOMM_FR_BUFFER_SIZE"));
}

// The newest entries belong to one group, so they do not show which way of counting the backend uses.
TEST(FrBackends, ANumberOfOneOfSeveralGroupsIsIgnoredWithoutItsBeginning) {
  FrDump dump = Torchcomms(4711);
  dump.entries.erase(dump.entries.begin(), dump.entries.end() - 2);
  EXPECT_THAT(LoadDumps({dump}).ranks[0].ops, IsEmpty());
  dump.groups.pop_back();
  for (FrEntry& entry : dump.entries) entry.pg = "world", entry.pg_id = 0;
  EXPECT_THAT(LoadDumps({dump}).ranks[0].ops, SizeIs(2)) << "it is the only group";
}

// A backend without group names lists one nameless group with its members.
TEST(FrBackends, ANamelessGroupShowsTheNumberOfRanks) {
  FrDump dump;
  dump.groups = {{.name = "", .desc = "", .ranks = {0, 1, 2, 3}, .enqueued = 1, .completed = 1}};
  dump.entries = {{.op = "gloo:all_reduce", .seq = 1, .retired = true}};
  const Bundle bundle = LoadDumps({dump, dump, dump});
  ASSERT_THAT(bundle.comms, SizeIs(1));
  EXPECT_THAT(bundle.comms[0].members, SizeIs(4));
}

}  // namespace
}  // namespace lockstep
