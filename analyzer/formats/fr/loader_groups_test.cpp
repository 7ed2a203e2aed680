// Tests the groups of a job, with names and members, from the dumps of several ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "analyzer/formats/fr/members.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/testing/fr_dumps.h"

namespace lockstep {
namespace {

using fr_test::FrDump;
using fr_test::LoadDumps;
using fr_test::MemberIn;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(FrLoaderGroups, AGroupWithTheSameNameAndOtherMembersIsAnotherGroup) {
  FrDump dumps[2];
  for (int rank = 0; rank < 2; rank++) {
    dumps[rank].groups.push_back({.name = "1", .desc = "own", .ranks = {rank}, .pg_id = 1});
    dumps[rank].entries.push_back({.seq = 0});
    dumps[rank].entries.push_back(
        {.seq = 0, .pg = "1", .desc = "own", .pg_id = 1, .input = {{5, 5}}, .output = {{5, 5}}});
  }
  Bundle bundle = LoadDumps({dumps[0], dumps[1]});
  ASSERT_THAT(bundle.comms, SizeIs(3));
  std::vector<std::vector<int32_t>> members;
  for (const Communicator& comm : bundle.comms) members.push_back(comm.members);
  std::sort(members.begin(), members.end());
  EXPECT_THAT(members, ElementsAre(ElementsAre(0), ElementsAre(0, 1), ElementsAre(1)));
  for (const Rank& rank : bundle.ranks) {
    ASSERT_THAT(rank.memberships, SizeIs(2));
    const Op& op = rank.ops[1];
    EXPECT_THAT(bundle.comms[rank.memberships[op.membership].comm].members, ElementsAre(rank.rank));
    EXPECT_EQ(rank.memberships[op.membership].first_seq, 0);
  }
}

// Rank 0 has created a group by itself, so its names of later groups are one higher.
TEST(FrLoaderGroups, OneGroupMayHaveAnotherNameInEachProcess) {
  FrDump dumps[2];
  dumps[0].groups.push_back({.name = "1", .desc = "own", .ranks = {0}, .pg_id = 1});
  for (int rank = 0; rank < 2; rank++) {
    const std::string name = rank == 0 ? "2" : "1";
    const int64_t id = rank == 0 ? 2 : 1;
    dumps[rank].groups.push_back({.name = name, .desc = "undefined", .pg_id = id, .enqueued = 1, .completed = 0});
    dumps[rank].entries.push_back({.pg = name, .desc = "undefined", .pg_id = id});
  }
  const Bundle bundle = LoadDumps({dumps[0], dumps[1]});
  ASSERT_THAT(bundle.comms, SizeIs(3));
  const auto comm_of = [&](const Rank& rank) { return rank.memberships[rank.ops[0].membership].comm; };
  EXPECT_EQ(comm_of(bundle.ranks[0]), comm_of(bundle.ranks[1]));
  EXPECT_EQ(bundle.comms[comm_of(bundle.ranks[0])].name, "1 or 2");
}

// If a process has two groups with the same members, they keep their names.
TEST(FrLoaderGroups, GroupsThatOneProcessDistinguishesStaySeparate) {
  FrDump dump;
  dump.groups.push_back({.name = "1", .desc = "undefined", .pg_id = 1});
  dump.groups.push_back({.name = "2", .desc = "undefined", .pg_id = 2});
  EXPECT_THAT(LoadDumps({dump, dump}).comms, SizeIs(3));
}

TEST(FrLoaderGroups, AGroupThatOnlyOthersConfigureIsFoundByItsMembers) {
  FrDump with, without;
  with.groups.push_back({.name = "4", .desc = "TP", .ranks = {0, 1}, .pg_id = 3, .enqueued = 1});
  without.groups.push_back({.name = "4", .desc = "TP", .pg_id = 2, .enqueued = 1, .in_config = false});
  with.entries.push_back({.pg = "4", .desc = "TP", .pg_id = 3});
  without.entries.push_back({.pg = "4", .desc = "TP", .pg_id = 2});
  Bundle bundle = LoadDumps({with, without});
  ASSERT_THAT(bundle.comms, SizeIs(2));
  const Membership* member = MemberIn(bundle, bundle.ranks[1], "TP");
  ASSERT_NE(member, nullptr);
  EXPECT_THAT(bundle.comms[member->comm].members, ElementsAre(0, 1));
  EXPECT_EQ(member->local_name, "2");
  EXPECT_EQ(member->issued, 1);
}

// A gloo dump: a group without a name, and with ranks numbered inside the group.
FrDump Gloo(int rank, int job_size) {
  FrDump dump;
  dump.AsVersion("2.10");
  dump.groups = {{.name = "", .desc = "", .pg_id = 0, .enqueued = 1, .completed = 1, .ranks_text = "[0, 1, 2, 3]"},
                 {.pg_id = 1, .enqueued = 1, .completed = 0, .in_config = false},
                 {.pg_id = 2, .enqueued = 1, .completed = 1, .in_config = false}};
  std::string tensor = std::to_string(1 + rank / 2), data = std::to_string(1 + job_size / 2 + rank % 2);
  dump.entries = {{.op = "gloo:all_reduce", .pg = tensor, .desc = "TENSOR", .pg_id = 1},
                  {.op = "gloo:all_reduce", .pg = data, .desc = "DATA", .pg_id = 2, .retired = true},
                  {.op = "gloo:broadcast", .retired = true}};
  return dump;
}

TEST(FrLoaderGroups, UnlistedMembersComeFromTheCalls) {
  std::vector<std::optional<FrDump>> dumps;
  for (int rank = 0; rank < 8; rank++) dumps.push_back(Gloo(rank, 8));
  Bundle bundle = LoadDumps(dumps);
  EXPECT_THAT(bundle.problems, IsEmpty());
  ASSERT_THAT(bundle.comms, SizeIs(7));
  for (const Communicator& comm : bundle.comms) {
    EXPECT_TRUE(comm.members_inferred);
    EXPECT_EQ(comm.size, comm.name == "default_pg" ? 8 : comm.name == "DATA" ? 4 : 2);
  }
  const Rank& rank = bundle.ranks[5];
  EXPECT_THAT(bundle.comms[rank.memberships[rank.ops[0].membership].comm].members, ElementsAre(4, 5));
  EXPECT_THAT(bundle.comms[rank.memberships[rank.ops[1].membership].comm].members, ElementsAre(1, 3, 5, 7));
  EXPECT_EQ(rank.ops[0].state, OpState::kIncomplete);
  EXPECT_EQ(rank.ops[1].state, OpState::kCompleted);  // the entry is retired, and counted in pg_status
  EXPECT_FALSE(rank.only_active);
}

TEST(FrLoaderGroups, ARankWithoutADumpIsStillAMember) {
  for (size_t gone : {5u, 7u, 0u}) {
    SCOPED_TRACE(gone);
    std::vector<std::optional<FrDump>> dumps;
    for (int rank = 0; rank < 8; rank++) dumps.push_back(Gloo(rank, 8));
    dumps[gone].reset();
    Bundle bundle = LoadDumps(dumps);
    EXPECT_EQ(bundle.ranks_expected, 8);
    ASSERT_THAT(bundle.comms, SizeIs(7));
    for (const Communicator& comm : bundle.comms) {
      EXPECT_EQ(comm.size, comm.name == "default_pg" ? 8 : comm.name == "DATA" ? 4 : 2) << comm.id;
    }
  }
}

TEST(FrLoaderGroups, StatusOfGroupsWithoutEntriesIsMatchedByTheOrderOfDecimalNames) {
  // Names are numbered over all groups of the job, pg_ids over the process's own groups. Both ascend.
  FrDump full;
  full.groups = {{.name = "0", .pg_id = 0, .enqueued = 10, .completed = 10},
                 {.name = "112", .desc = "LATE", .pg_id = 9, .enqueued = 30, .completed = 30},
                 {.name = "33", .desc = "EARLY", .pg_id = 4, .enqueued = 20, .completed = 19}};
  full.entries = {{.seq = 20, .pg = "33", .desc = "EARLY", .pg_id = 4}};
  FrDump silent = full;
  silent.entries.clear();
  silent.groups[2].enqueued = 19;
  for (bool json : {false, true}) {
    Bundle bundle = LoadDumps({full, silent}, json);
    for (const Rank& rank : bundle.ranks) {
      EXPECT_TRUE(rank.only_active);
      EXPECT_EQ(MemberIn(bundle, rank, "default_pg")->issued, 10);
      EXPECT_EQ(MemberIn(bundle, rank, "LATE")->issued, 30);
      EXPECT_EQ(MemberIn(bundle, rank, "EARLY")->issued, rank.rank == 0 ? 20 : 19);
      EXPECT_EQ(MemberIn(bundle, rank, "EARLY")->completed, 19);
      EXPECT_EQ(MemberIn(bundle, rank, "EARLY")->local_name, "4");
    }
  }
}

TEST(FrLoaderGroups, AnOrderThatAnEntryContradictsIsNotUsed) {
  FrDump dump;
  dump.groups = {{.name = "0", .pg_id = 0, .enqueued = 10, .completed = 10},
                 {.name = "5", .desc = "A", .pg_id = 7, .enqueued = 20, .completed = 20},
                 {.name = "6", .desc = "B", .pg_id = 3, .enqueued = 30, .completed = 29},
                 {.name = "8", .desc = "C", .pg_id = 9, .enqueued = 40, .completed = 40}};
  dump.entries = {{.seq = 30, .pg = "6", .desc = "B", .pg_id = 3}};
  Bundle bundle = LoadDumps({dump, dump});
  EXPECT_EQ(MemberIn(bundle, bundle.ranks[0], "B")->issued, 30);
  EXPECT_EQ(MemberIn(bundle, bundle.ranks[0], "A")->issued, kUnknown);
  EXPECT_EQ(MemberIn(bundle, bundle.ranks[0], "C")->issued, kUnknown);
}

TEST(FrLoaderGroups, TheGroupOfAllComesFirstAndTheOnlyRemainingPairMatches) {
  FrDump dump;
  dump.groups = {{.name = "0", .pg_id = 0, .enqueued = 10, .completed = 10},
                 {.name = "5", .desc = "A", .pg_id = 7, .enqueued = 20, .completed = 20},
                 {.name = "6", .desc = "B", .pg_id = 3, .enqueued = 30, .completed = 29}};
  dump.entries = {{.seq = 30, .pg = "6", .desc = "B", .pg_id = 3}};
  Bundle bundle = LoadDumps({dump, dump});
  EXPECT_EQ(MemberIn(bundle, bundle.ranks[0], "default_pg")->issued, 10);
  EXPECT_EQ(MemberIn(bundle, bundle.ranks[0], "A")->issued, 20);
  EXPECT_EQ(MemberIn(bundle, bundle.ranks[0], "B")->issued, 30);
}

// A group that began before the oldest recorded batch contains the operations that the counters do not include. These
// were not enqueued.
TEST(FrLoaderGroups, CallsBeforeTheOldestBatchAreInTheOpenGroup) {
  for (const bool other_thread : {false, true}) {
    FrDump dump;
    dump.groups = {{.enqueued = 4, .completed = 4},
                   {.name = "1", .desc = "PP", .pg_id = 1, .enqueued = 6, .completed = 6}};
    dump.entries = {{.seq = 4, .state = "completed", .retired = true}, {.seq = 5}};
    if (other_thread) dump.entries[1].thread_id = "140000000000002";
    for (const char* op : {"nccl:send 0->1", "nccl:recv 0<-1"})
      dump.entries.push_back({.op = op, .seq = 0, .pg = "1", .desc = "PP", .pg_id = 1, .is_p2p = true, .p2p_seq = 7});
    dump.entries.push_back({.seq = 6});
    const Bundle bundle = LoadDumps({dump});
    const Rank& rank = bundle.ranks[0];
    ASSERT_THAT(rank.ops, SizeIs(5));
    EXPECT_EQ(rank.ops[0].state, OpState::kCompleted);
    for (size_t i = 1; i < 5; ++i) EXPECT_EQ(rank.ops[i].state, OpState::kQueued) << i;
    EXPECT_EQ(MemberIn(bundle, rank, "default_pg")->issued, 4);
  }
}

TEST(FrLoaderGroups, AnOrderThatOtherRanksContradictIsNotUsed) {
  FrDump full, silent;
  full.groups = {{.name = "0", .desc = "world", .pg_id = 0, .enqueued = 10, .completed = 10},
                 {.name = "19", .desc = "TP", .pg_id = 1, .enqueued = 20, .completed = 20},
                 {.name = "1", .desc = "DP", .pg_id = 3, .enqueued = 30, .completed = 30}};
  silent.groups = full.groups;
  full.entries = {{.seq = 10, .pg = "0", .desc = "world", .pg_id = 0, .state = "completed"},
                  {.seq = 20, .pg = "19", .desc = "TP", .pg_id = 1, .state = "completed"},
                  {.seq = 30, .pg = "1", .desc = "DP", .pg_id = 3, .state = "completed"}};
  const Bundle bundle = LoadDumps({full, silent});
  for (const Rank& rank : bundle.ranks) {
    EXPECT_EQ(MemberIn(bundle, rank, "TP")->issued, 20);
    EXPECT_EQ(MemberIn(bundle, rank, "DP")->issued, 30);
  }
}

TEST(FrLoaderGroups, HashedNamesAreMatchedThroughOtherRanks) {
  FrDump full, silent;
  full.groups = {{.name = "aa", .desc = "world", .pg_id = 0, .enqueued = 10, .completed = 9},
                 {.name = "bb", .desc = "TP", .pg_id = 1, .enqueued = 20, .completed = 19},
                 {.name = "c1", .desc = "DP", .ranks = {0}, .pg_id = 2, .enqueued = 30, .completed = 29}};
  silent.groups = full.groups;
  silent.groups[2].name = "c2";
  silent.groups[2].ranks = {1};
  full.entries = {{.seq = 10, .pg = "aa", .desc = "world", .pg_id = 0},
                  {.seq = 20, .pg = "bb", .desc = "TP", .pg_id = 1},
                  {.seq = 30, .pg = "c1", .desc = "DP", .pg_id = 2}};
  Bundle bundle = LoadDumps({full, silent});
  EXPECT_EQ(MemberIn(bundle, bundle.ranks[1], "world")->issued, 10);
  EXPECT_EQ(MemberIn(bundle, bundle.ranks[1], "TP")->issued, 20);
  EXPECT_EQ(MemberIn(bundle, bundle.ranks[1], "DP")->issued, 30);
  // Without such a rank, nothing is assumed.
  full.entries.clear();
  bundle = LoadDumps({full, silent});
  EXPECT_EQ(MemberIn(bundle, bundle.ranks[1], "TP")->issued, kUnknown);
}

TEST(FrLoaderGroups, StatusOfPointToPointGroupsCountsSendsAndReceives) {
  FrDump sender;
  sender.groups[0] = {.enqueued = 5000, .completed = 4997};
  sender.entries = {{.op = "nccl:send 0->1", .seq = 26, .is_p2p = true, .p2p_seq = 4995},
                    {.op = "nccl:recv 0<-1", .seq = 26, .is_p2p = true, .p2p_seq = 4998},
                    {.op = "nccl:send 0->1", .seq = 26, .is_p2p = true, .p2p_seq = 5000}};
  FrDump silent;
  silent.groups[0] = {.enqueued = 4996, .completed = 4996};
  Bundle bundle = LoadDumps({sender, silent});
  const Membership& member = bundle.ranks[0].memberships[0];
  EXPECT_EQ(member.issued, 26);
  EXPECT_EQ(member.completed, 26);
  EXPECT_EQ(member.p2p_issued, 5000);
  EXPECT_EQ(member.p2p_completed, 4997);
  // Sends and receives complete in any order, so the count does not prove that this one completed. Its entry does not
  // prove that it is unfinished either: a dump of active operations keeps members of completed batches.
  EXPECT_EQ(bundle.ranks[0].ops[0].state, OpState::kUnknown);
  EXPECT_EQ(bundle.ranks[0].ops[0].root_or_peer, 1);
  EXPECT_EQ(bundle.ranks[0].ops[0].seq, 4995);
  const Membership& other = bundle.ranks[1].memberships[0];
  EXPECT_EQ(other.p2p_issued, 4996);
  EXPECT_EQ(other.issued, kUnknown);
}

// The status has one number for a group, although the group numbers collectives and sends separately.
TEST(FrLoaderGroups, StatusOfMixedGroupsBoundsBothCounts) {
  FrDump dump;
  dump.groups[0] = {.enqueued = 2, .completed = 48};
  dump.entries = {{.op = "nccl:send 0->1", .seq = 1, .is_p2p = true, .p2p_seq = 50},
                  {.op = "nccl:all_reduce", .seq = 2}};
  dump.entries[1].p2p_seq = 64;
  Bundle bundle = LoadDumps({dump, dump});
  EXPECT_EQ(bundle.ranks[0].memberships[0].p2p_completed, 48);
  EXPECT_EQ(bundle.ranks[0].memberships[0].issued, 2);
  EXPECT_EQ(bundle.ranks[0].ops[1].state, OpState::kIncomplete);

  // Equal numbers do not mean the same operation: receive 6 is complete, collective 6 is not.
  dump.groups[0] = {.enqueued = 6, .completed = 6};
  dump.entries = {{.op = "nccl:recv 0<-1", .seq = 5, .is_p2p = true, .p2p_seq = 6},
                  {.op = "nccl:all_to_all", .seq = 6}};
  dump.entries[1].p2p_seq = 6;
  bundle = LoadDumps({dump, dump});
  EXPECT_NE(bundle.ranks[0].memberships[0].completed, 6);
  EXPECT_EQ(bundle.ranks[0].ops[1].state, OpState::kIncomplete);
}

// A small file can claim the largest rank and many descriptions. With work for each rank in each group, this test would
// not end.
TEST(FrLoaderGroups, ManyGroupsInAJobOfSilentRanksTakeLinearTime) {
  std::vector<int32_t> silent(static_cast<size_t>(fr::kMaxRank));
  std::iota(silent.begin(), silent.end(), 1);
  std::vector<fr::UnlistedGroup> groups(20'000);
  for (size_t i = 0; i < groups.size(); i++) {
    groups[i].desc = std::to_string(i / 2);
    groups[i].users = {0};
    groups[i].group_ranks = {-1};
  }
  fr::InferMembers(silent, fr::kMaxRank + 1, false, &groups);
  for (const fr::UnlistedGroup& group : groups) ASSERT_THAT(group.members, ElementsAre(0));
}

}  // namespace
}  // namespace lockstep
