// Tests every life cycle of a communicator that NCCL allows. The ring must record it without an effect on the program.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "recorder/base/identity.h"
#include "recorder/testing/lives_runs.h"

namespace lockstep {
namespace {

using ring::CallKind;
using ring::CommSnapshot;
using ring::CommState;
using ring::OpSnapshot;
using ring::OpStage;
using ring::Snapshot;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class LivesTest : public LivesRuns {};

std::vector<CommSnapshot> Made(const Snapshot& ring, CallKind how) {
  std::vector<CommSnapshot> made;
  for (const CommSnapshot& comm : ring.comms) {
    if (comm.origin == how) made.push_back(comm);
  }
  return made;
}

TEST_F(LivesTest, AMemberCreatedWhileAnotherThreadCreatesTheRingKeepsItsIdentity) {
  // A rule in the deny list queries NCCL's version, which takes longer than the other thread waits.
  ASSERT_EQ(Run("'" LIVES_START_HOST "'", "LOCKSTEP_DENY='nccl 2.4' " + Recorded()).status, 0);
  const Snapshot ring = AtEnd();
  ASSERT_THAT(ring.comms, SizeIs(2));
  EXPECT_NE(ring.comms[0].id, 0u);
  EXPECT_EQ(ring.comms[0].id, ring.comms[1].id);
  EXPECT_EQ(ring.comms[0].member_rank + ring.comms[1].member_rank, 1);
  for (const CommSnapshot& comm : ring.comms) {
    EXPECT_EQ(comm.origin, CallKind::kCommInitRank);
    EXPECT_EQ(comm.state, CommState::kReady);
    EXPECT_EQ(comm.size, 2);
    EXPECT_EQ(comm.issued_seq, 3u);
  }
}

TEST_F(LivesTest, ChildrenOfSplitShrinkAndGrowAreRecorded) {
  RunBoth("children");
  const Snapshot ring = Copied("living");
  const std::vector<CommSnapshot> world = Made(ring, CallKind::kCommInitAll);
  ASSERT_THAT(world, SizeIs(4));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(world[i].member_rank, i);
    EXPECT_EQ(world[i].device, i);
    EXPECT_EQ(world[i].id, world[0].id);
  }
  const std::vector<CommSnapshot> splits = Made(ring, CallKind::kCommSplit);
  ASSERT_THAT(splits, SizeIs(8));
  // The handles are stored when the group ends. Color 0 has ranks 0 and 2, whose keys reverse them. Rank 3 has no
  // color.
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(splits[i].parent_id, world[0].id);
    EXPECT_EQ(splits[i].ordinal, 1u);
    EXPECT_EQ(splits[i].key, -i);
    EXPECT_EQ(splits[i].state, i == 3 ? CommState::kNotMember : CommState::kReady);
  }
  EXPECT_EQ(splits[0].id, splits[2].id);
  EXPECT_NE(splits[0].id, splits[1].id);
  EXPECT_EQ(splits[0].member_rank, 1);
  EXPECT_EQ(splits[2].member_rank, 0);
  EXPECT_EQ(splits[0].size, 2);
  EXPECT_EQ(splits[1].size, 1);
  EXPECT_EQ(splits[0].issued_seq, 1u);
  EXPECT_EQ(splits[0].launched_seq, 1u);
  EXPECT_EQ(splits[4].id, splits[5].id);
  EXPECT_NE(splits[4].id, splits[0].id) << "the second split has the same color";
  // Two shrinks that exclude the same ranks have the same hash in NCCL, but they are two communicators.
  const std::vector<CommSnapshot> shrunk = Made(ring, CallKind::kCommShrink);
  ASSERT_THAT(shrunk, SizeIs(4));
  EXPECT_EQ(shrunk[0].id, shrunk[1].id);
  EXPECT_EQ(shrunk[2].id, shrunk[3].id);
  EXPECT_NE(shrunk[0].id, shrunk[2].id);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(shrunk[i].size, 2);
    EXPECT_EQ(shrunk[i].member_rank, i % 2) << "known without asking NCCL";
    EXPECT_EQ(shrunk[i].excluded_total, 2u);
    EXPECT_EQ(std::set<int32_t>(shrunk[i].excluded.begin(), shrunk[i].excluded.end()), (std::set<int32_t>{1, 3}));
    EXPECT_EQ(shrunk[i].state, CommState::kReady);
    EXPECT_EQ(shrunk[i].issued_seq, 1u);
  }
  // One member passed the id, one did not, and the third is new, so it has no parent communicator.
  const std::vector<CommSnapshot> grown = Made(ring, CallKind::kCommGrow);
  ASSERT_THAT(grown, SizeIs(3));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(grown[i].id, grown[0].id);
    EXPECT_EQ(grown[i].member_rank, i);
    EXPECT_EQ(grown[i].size, 3);
    EXPECT_EQ(grown[i].issued_seq, 1u);
    EXPECT_EQ(grown[i].parent_id, i < 2 ? splits[4].id : 0);
  }
  const Snapshot end = AtEnd();
  for (const CommSnapshot& comm : end.comms) {
    const CommState expected = comm.origin == CallKind::kCommGrow                     ? CommState::kAborted
                               : comm.origin == CallKind::kCommSplit && comm.size < 0 ? CommState::kNotMember
                                                                                      : CommState::kDestroyed;
    EXPECT_EQ(comm.state, expected) << comm.index;
    EXPECT_GE(comm.ended_ns, comm.created_ns);
  }
}

TEST_F(LivesTest, EveryStateOfACommunicatorAndEveryCallThatChangesItIsRecorded) {
  const std::string out = RunBoth("states");
  EXPECT_THAT(out, HasSubstr("suspended reduce 5"));
  EXPECT_THAT(out, HasSubstr("revoked reduce 5"));
  EXPECT_THAT(out, HasSubstr("end at depth 0 5"));
  EXPECT_EQ(Copied("revoked").comms.at(0).state, CommState::kRevoked);
  EXPECT_EQ(Copied("finalized").comms.at(1).state, CommState::kFinalizing);
  const Snapshot ring = AtEnd();
  ASSERT_THAT(ring.comms, SizeIs(2));
  EXPECT_EQ(ring.comms[0].state, CommState::kAborted);
  EXPECT_EQ(ring.comms[1].state, CommState::kDestroyed);
  // Refused, simulated and abandoned operations have no sequence number. An operation without elements has one.
  EXPECT_EQ(ring.comms[0].issued_seq, 3u);
  std::map<OpStage, int> stages;
  std::map<CallKind, int> calls;
  for (const OpSnapshot& op : ring.ops) {
    ++calls[op.kind];
    if (ring::IsCollective(op.kind)) ++stages[op.stage];
  }
  EXPECT_EQ(stages[OpStage::kLaunched], 3);
  EXPECT_EQ(stages[OpStage::kSimulated], 1);
  EXPECT_EQ(stages[OpStage::kFailed], 4) << "suspended, wrong root, the good call of its group, revoked";
  EXPECT_EQ(calls[CallKind::kCommRegister], 1) << "NCCL's own registration of the window must not count";
  for (const CallKind kind :
       {CallKind::kCommSuspend, CallKind::kMemAlloc, CallKind::kMemFree, CallKind::kCommDeregister,
        CallKind::kWindowRegister, CallKind::kWindowDeregister, CallKind::kRedOpCreate, CallKind::kRedOpDestroy}) {
    EXPECT_EQ(calls[kind], 1) << ring::CallName(kind);
  }
  EXPECT_EQ(calls[CallKind::kCommResume], 2);
  EXPECT_EQ(calls[CallKind::kCommRevoke], 2);
}

TEST_F(LivesTest, ANonblockingCommunicatorLaunchesNothingBeforeNcclIsReady) {
  const std::string out = RunBoth("nonblocking", "STANDIN_ASYNC_DELAY_US=150000");
  EXPECT_THAT(out, HasSubstr("init 7"));
  EXPECT_THAT(out, HasSubstr("count 4"));
  EXPECT_THAT(out, HasSubstr("reduce 7"));
  EXPECT_THAT(out, HasSubstr("too early 4"));
  const CommSnapshot initializing = Copied("initializing").comms.at(0);
  EXPECT_EQ(initializing.state, CommState::kInitializing);
  EXPECT_EQ(initializing.size, 1) << "from the call's arguments";
  const Snapshot queueing = Copied("queueing");
  EXPECT_EQ(queueing.comms.at(0).state, CommState::kReady);
  EXPECT_EQ(queueing.comms.at(0).issued_seq, 1u);
  EXPECT_EQ(queueing.comms.at(0).launched_seq, 0u) << "NCCL's own thread has not finished";
  const CommSnapshot queued = Copied("queued").comms.at(0);
  EXPECT_EQ(queued.issued_seq, 1u) << "the call that came too early was refused";
  EXPECT_EQ(queued.launched_seq, 1u);
  const CommSnapshot splitting = Copied("splitting").comms.at(1);
  EXPECT_EQ(splitting.state, CommState::kInitializing);
  const CommSnapshot split = Copied("split").comms.at(1);
  EXPECT_EQ(split.state, CommState::kReady);
  EXPECT_EQ(split.member_rank, 0);
  EXPECT_EQ(split.size, 1);
  EXPECT_FALSE(split.blocking);
  const Snapshot ring = AtEnd();
  ASSERT_THAT(ring.comms, SizeIs(4));
  EXPECT_EQ(ring.comms[0].launched_seq, 3u) << "including the grouped call and the call of the simulated group";
  EXPECT_EQ(ring.comms[2].name, "blocking child");
  EXPECT_TRUE(ring.comms[2].blocking) << "a configuration without the setting means blocking";
  EXPECT_EQ(ring.comms[2].issued_seq, 1u);
  EXPECT_EQ(ring.comms[3].issued_seq, 1u) << "the variable for its handle is gone";
  EXPECT_EQ(ring.comms[3].size, 1);
  for (const CommSnapshot& comm : ring.comms) EXPECT_NE(comm.origin, CallKind::kNone);
}

TEST_F(LivesTest, AWatchdogMayQueryAndAbortWhileAnotherThreadIsInsideACall) {
  RunBoth("watchdog");
  const Snapshot waiting = Copied("waiting");
  ASSERT_THAT(waiting.comms, SizeIs(1));
  EXPECT_EQ(waiting.comms[0].state, CommState::kInitializing);
  EXPECT_EQ(waiting.comms[0].size, 2);
  bool inside = false;
  for (const ring::ThreadSnapshot& thread : waiting.threads) {
    inside |= thread.call == CallKind::kCommInitRank && thread.comm == 0;
  }
  EXPECT_TRUE(inside);
  const Snapshot aborted = Copied("aborted");
  ASSERT_THAT(aborted.comms, SizeIs(1)) << "the caller's variable has the handle of the communicator being created";
  EXPECT_EQ(aborted.comms[0].state, CommState::kAborted);
  const Snapshot ring = AtEnd();
  ASSERT_THAT(ring.comms, SizeIs(2));
  EXPECT_EQ(ring.comms[1].issued_seq, 2000u);
  EXPECT_EQ(ring.comms[1].launched_seq, 2000u);
  EXPECT_EQ(ring.comms[1].async_error, 0);
}

TEST_F(LivesTest, ReusedHandlesAreOtherCommunicators) {
  RunBoth("reuse");
  const Snapshot ring = AtEnd();
  EXPECT_THAT(ring.comms, SizeIs(256)) << "the oldest ended communicators must have been dropped";
  std::set<uint64_t> ids;
  uint32_t newest = 0;
  for (const CommSnapshot& comm : ring.comms) {
    EXPECT_TRUE(ids.insert(comm.id).second);
    EXPECT_EQ(comm.issued_seq, 1u);
    EXPECT_NE(comm.origin, CallKind::kNone);
    EXPECT_TRUE(comm.state == CommState::kDestroyed || comm.state == CommState::kAborted);
    newest = std::max(newest, comm.generation);
  }
  EXPECT_GT(newest, 0u);
}

TEST_F(LivesTest, EqualUniqueIdsMakeDifferentCommunicators) {
  RunBoth("comm-id", "NCCL_COMM_ID=127.0.0.1:" + std::to_string(getpid()));
  const Snapshot ring = AtEnd();
  ASSERT_THAT(ring.comms, SizeIs(6));
  std::map<uint64_t, std::vector<uint64_t>> issued;
  std::map<uint64_t, std::set<int>> ranks;
  for (const CommSnapshot& comm : ring.comms) {
    issued[comm.id].push_back(comm.issued_seq);
    ranks[comm.id].insert(comm.member_rank);
  }
  ASSERT_EQ(issued.size(), 3u);
  std::set<uint64_t> rounds;
  for (const auto& [id, counts] : issued) {
    ASSERT_THAT(counts, SizeIs(2));
    EXPECT_EQ(counts[0], counts[1]) << "both are members of one communicator";
    EXPECT_EQ(ranks[id], (std::set<int>{0, 1}));
    rounds.insert(counts[0]);
  }
  EXPECT_EQ(rounds, (std::set<uint64_t>{1, 2, 3}));
}

TEST_F(LivesTest, SeveralIdsInAGroupAreUsedAtOnceByTheSameThread) {
  RunBoth("scalable");
  const Snapshot ring = AtEnd();
  ASSERT_THAT(ring.comms, SizeIs(3));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ring.comms[i].origin, CallKind::kCommInitRankScalable);
    EXPECT_EQ(ring.comms[i].member_rank, i) << "the rank comes before the number of ids";
    EXPECT_EQ(ring.comms[i].size, 3);
    EXPECT_EQ(ring.comms[i].device, i);
    EXPECT_EQ(ring.comms[i].name, "scalable");
    EXPECT_EQ(ring.comms[i].state, CommState::kReady);
    EXPECT_EQ(ring.comms[i].id, ring.comms[0].id);
    EXPECT_EQ(ring.comms[i].launched_seq, 1u);
  }
}

TEST_F(LivesTest, OneSidedCallsAreCountedForEachPeer) {
  RunBoth("one-sided");
  const auto peer = [](const Snapshot& ring, size_t comm) {
    // The call with an invalid peer left an entry without counts.
    EXPECT_THAT(ring.comms.at(comm).peers, SizeIs(2 - comm));
    EXPECT_EQ(ring.comms.at(comm).peers.at(0).peer, static_cast<int32_t>(1 - comm));
    return ring.comms.at(comm).peers.at(0);
  };
  const Snapshot balanced = Copied("balanced");
  EXPECT_EQ(peer(balanced, 0).signals, 4u)
      << "three puts and a signal without data; abandoned and refused calls do not count";
  EXPECT_EQ(peer(balanced, 0).waited, 1u);
  EXPECT_EQ(peer(balanced, 1).signals, 1u);
  EXPECT_EQ(peer(balanced, 1).waited, 4u);
  EXPECT_EQ(peer(balanced, 0).sends + peer(balanced, 0).recvs, 0u);
  std::vector<uint64_t> puts, waits;
  for (const OpSnapshot& op : balanced.ops) {
    if (op.stage != OpStage::kLaunched || op.comm > 1) continue;
    if (op.comm == 0 && (op.kind == CallKind::kPutSignal || op.kind == CallKind::kSignal)) puts.push_back(op.seq);
    if (op.comm == 1 && op.kind == CallKind::kWaitSignal) waits.push_back(op.seq);
  }
  EXPECT_THAT(puts, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(waits, ElementsAre(3, 4)) << "a wait has the number of the last signal that it waits for";
  const Snapshot waiting = Copied("waiting");
  EXPECT_EQ(peer(waiting, 1).waited, 6u);
  EXPECT_EQ(peer(waiting, 0).signals, 4u) << "two of these signals never come";
  const ring::StreamSnapshot& stuck = waiting.streams.at(1);
  EXPECT_EQ(stuck.issued, stuck.completed + 1) << "the stream is stuck in that wait";
}

TEST_F(LivesTest, AWaitForSeveralPeersIsCountedForEachPeer) {
  RunBoth("waits-for-several", "LOCKSTEP_GPU=done");
  const auto waited = [&](const std::string& copy) {
    std::map<int32_t, uint64_t> counts;
    const Snapshot ring = Copied(copy);
    for (const auto& peer : ring.comms.at(0).peers) counts[peer.peer] = peer.waited;
    return std::vector{counts[1], counts[2]};
  };
  EXPECT_THAT(waited("waiting"), ElementsAre(41, 82));
  EXPECT_THAT(waited("captured"), ElementsAre(41, 82)) << "neither the abandoned group nor the capture counts";
  const Snapshot ring = Copied("waiting");
  std::set<uint64_t> tickets;
  for (const OpSnapshot& op : ring.ops) {
    if (op.comm == 0 && op.kind == CallKind::kWaitSignal) tickets.insert(op.ticket);
  }
  EXPECT_EQ(tickets, (std::set<uint64_t>{1, 2})) << "all peers of one call share its markers";
  EXPECT_EQ(ring.streams.at(0).issued, 2u);
}

TEST_F(LivesTest, ConfigurationsOfOldAndWrongCallersAreHarmless) {
  const std::string out = RunBoth("configs");
  EXPECT_THAT(out, HasSubstr("too large 4"));
  EXPECT_THAT(out, HasSubstr("bad magic 4"));
  EXPECT_THAT(out, HasSubstr("newer 0"));
  const Snapshot ring = AtEnd();
  std::vector<std::string> names;
  for (const CommSnapshot& comm : ring.comms) names.push_back(comm.name);
  EXPECT_THAT(names, ElementsAre("", "", "", "", "two twenty-seven", "", "two thirty", "newer", "", "", "", "at edge",
                                 std::string(63, 'n')));
  EXPECT_EQ(ring.comms.at(8).state, CommState::kInitFailed);
  EXPECT_EQ(ring.comms.at(7).state, CommState::kDestroyed);
}

}  // namespace
}  // namespace lockstep
