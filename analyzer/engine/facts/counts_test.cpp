#include "analyzer/engine/facts/counts.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace lockstep {
namespace {

// Returns a job of pipelines of two ranks, and a group of all ranks. In each pipeline, the ranks exchanged ten times;
// only the newest send is recorded.
Bundle Pipelines(int count) {
  Bundle b;
  b.ranks_expected = 2 * count;
  b.comms.resize(static_cast<size_t>(count) + 1);
  for (int c = 0; c <= count; ++c) {
    Communicator& comm = b.comms[static_cast<size_t>(c)];
    comm.name = c == count ? "world" : "pp_" + std::to_string(c);
    comm.id = comm.name;
    comm.size = c == count ? 2 * count : 2;
    for (int m = 0; m < comm.size; ++m) comm.members.push_back(c == count ? m : 2 * c + m);
  }
  for (int r = 0; r < 2 * count; ++r) {
    Rank rank;
    rank.rank = r;
    Membership pipeline, world;
    pipeline.comm = static_cast<uint32_t>(r / 2);
    pipeline.member_rank = r % 2;
    pipeline.issued = 0;
    pipeline.peers.push_back({1 - r % 2, 10, 10});
    world.comm = static_cast<uint32_t>(count);
    world.member_rank = r;
    world.issued = 7;
    rank.memberships = {pipeline, world};
    Op op;
    op.membership = 0;
    op.kind = ring::CallKind::kSend;
    op.root_or_peer = 1 - r % 2;
    op.seq = 10;
    rank.ops.push_back(op);
    b.ranks.push_back(rank);
  }
  return b;
}

std::vector<int32_t> Other(const Bundle& b, size_t recent = 1) { return FindOtherPrograms(Model(b, {}), recent); }

// In an all-to-all, a rank skips a peer to which it has nothing to send.
TEST(Counts, AnExchangeAmongManyLeavesOutPeers) {
  Bundle b = Pipelines(4);
  Communicator& all = b.comms.emplace_back();
  all.name = all.id = "ep";
  all.size = 8;
  for (int r = 0; r < all.size; ++r) all.members.push_back(r);
  for (Rank& rank : b.ranks) {
    Membership ms;
    ms.comm = static_cast<uint32_t>(b.comms.size() - 1);
    ms.member_rank = rank.rank;
    ms.issued = 0;
    for (int peer = 0; peer < all.size; ++peer) ms.peers.push_back({peer, 10, 10});
    rank.memberships.push_back(ms);
  }
  --b.ranks[2].memberships[2].peers[5].sends;
  --b.ranks[5].memberships[2].peers[2].recvs;
  EXPECT_TRUE(Other(b).empty());
}

// Pipeline 1 left out an exchange: it is ahead in the group of all ranks and behind in its own.
TEST(Counts, RanksThatSentOnceLessThanTheirPeersAreOdd) {
  Bundle b = Pipelines(4);
  EXPECT_TRUE(Other(b).empty());
  for (const size_t r : {2, 3}) {
    --b.ranks[r].memberships[0].peers[0].sends;
    ++b.ranks[r].memberships[1].issued;
  }
  EXPECT_EQ(Other(b), (std::vector<int32_t>{2, 3}));
}

TEST(Counts, FrameworkCountsAreComparedByGroup) {
  Bundle b = Pipelines(4);
  for (Rank& rank : b.ranks) {
    rank.source = Source::kFlightRecorder;
    rank.memberships[0].peers.clear();
    rank.ops[0].seq = rank.memberships[0].p2p_issued = rank.rank == 5 ? 19 : 20;
    if (rank.rank == 5) ++rank.memberships[1].issued;
  }
  EXPECT_EQ(Other(b), std::vector<int32_t>{5});
}

TEST(Counts, ARankThatIsAheadInEverythingIsNotOdd) {
  Bundle b = Pipelines(4);
  ++b.ranks[2].memberships[0].peers[0].sends;
  ++b.ranks[2].memberships[1].issued;
  EXPECT_TRUE(Other(b).empty());
  EXPECT_TRUE(Other(b, 16).empty()) << "some of its calls are not recorded, so its earlier places are unknown";
}

// Rank 2 sent once to a rank that others with its role never send to, instead of its neighbor.
TEST(Counts, ACallToAPeerThatTheRoleNeverHasIsOdd) {
  Bundle b = Pipelines(4);
  for (size_t c = 0; c < 4; ++c) {
    b.comms[c].size = 3;
    b.comms[c].members.push_back(static_cast<int32_t>((2 * c + 2) % 8));
  }
  std::vector<PeerCount>& peers = b.ranks[2].memberships[0].peers;
  peers[0].sends = b.ranks[2].ops[0].seq = 9;
  peers.push_back({2, 1, 0});
  EXPECT_EQ(Other(b), std::vector<int32_t>{2});
}

// Rank 2 made one call too many on its pipeline, and then the same call of all ranks as the others.
TEST(Counts, ACallTooManyBeforeTheNewestCallIsOdd) {
  Bundle b = Pipelines(4);
  for (Rank& rank : b.ranks) {
    Op op;
    op.membership = 1;
    op.kind = ring::CallKind::kAllReduce;
    op.seq = 7;
    rank.ops.push_back(op);
  }
  ++b.ranks[2].memberships[0].peers[0].sends;
  ++b.ranks[2].ops[0].seq;
  EXPECT_TRUE(Other(b).empty()) << "it may only be ahead";
  EXPECT_EQ(Other(b, 16), std::vector<int32_t>{2});
}

// Four ranks, each in two communicators of all ranks, "tp" and "world". Each rank has made 16 rounds of the calls tp,
// world, tp. The last eight rounds are recorded.
Bundle Rounds() {
  Bundle b;
  b.ranks_expected = 4;
  b.comms.resize(2);
  for (int c = 0; c < 2; ++c) {
    b.comms[static_cast<size_t>(c)].name = b.comms[static_cast<size_t>(c)].id = c == 0 ? "tp" : "world";
    b.comms[static_cast<size_t>(c)].size = 4;
    b.comms[static_cast<size_t>(c)].members = {0, 1, 2, 3};
  }
  for (int r = 0; r < 4; ++r) {
    Rank rank;
    rank.rank = r;
    Membership a, world;
    a.comm = 0;
    world.comm = 1;
    a.member_rank = world.member_rank = r;
    a.issued = 32;
    world.issued = 16;
    rank.memberships = {a, world};
    for (int64_t round = 9; round <= 16; ++round) {
      for (int k = 0; k < 3; ++k) {
        Op op;
        op.kind = ring::CallKind::kAllReduce;
        op.membership = k == 1 ? 1 : 0;
        op.seq = k == 1 ? round : 2 * round - (k == 0 ? 1 : 0);
        rank.ops.push_back(op);
      }
    }
    b.ranks.push_back(rank);
  }
  return b;
}

TEST(Counts, AnotherProgramNeedsAgreeingPeers) {
  Bundle b = Rounds();
  b.ranks[2].memberships[0].issued = b.ranks[1].memberships[0].issued = b.ranks[0].memberships[0].issued = 28;
  for (int r : {0, 1, 2}) b.ranks[static_cast<size_t>(r)].memberships[1].issued = 15;
  EXPECT_TRUE(Other(b).empty()) << "three of four are not a minority";
  Bundle unknown = Rounds();
  unknown.ranks[2].memberships[0].issued = 28;
  unknown.ranks[2].memberships[1].issued = kUnknown;
  EXPECT_TRUE(Other(unknown).empty());
  // An unknown counter does not hide the others.
  Bundle third = Rounds();
  third.comms.push_back(third.comms[1]);
  third.comms[2].name = third.comms[2].id = "extra";
  for (Rank& rank : third.ranks) {
    rank.memberships.push_back(rank.memberships[1]);
    rank.memberships[2].comm = 2;
    rank.memberships[2].issued = kUnknown;
  }
  EXPECT_TRUE(Other(third).empty());
  third.ranks[2].memberships[0].issued = 28;
  EXPECT_EQ(Other(third), std::vector<int32_t>{2});
}

// Ranks 0 and 1 make the rounds of their pair together. Rank 2's pair has its own number of rounds, and rank 3 left no
// data.
TEST(Counts, MembersOfOneCommunicatorAreOneWitness) {
  Bundle b = Rounds();
  b.comms.push_back(b.comms[0]);
  for (const size_t c : {0, 2}) {
    b.comms[c].name = b.comms[c].id = c == 0 ? "tp_0" : "tp_1";
    b.comms[c].size = 2;
    b.comms[c].members = c == 0 ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{2, 3};
  }
  b.ranks.pop_back();
  for (size_t r = 0; r < 3; ++r) b.ranks[r].memberships[0].member_rank = static_cast<int32_t>(r % 2);
  b.ranks[2].memberships[0].comm = 2;
  b.ranks[2].memberships[0].issued = 28;
  EXPECT_TRUE(Other(b).empty());
}

TEST(Counts, TooFewOrLostCountsShowNothing) {
  const auto leave_out = [](Bundle* b) {
    --b->ranks[2].memberships[0].peers[0].sends;
    ++b->ranks[2].memberships[1].issued;
  };
  Bundle two = Pipelines(2);
  leave_out(&two);
  EXPECT_TRUE(Other(two).empty());
  Bundle lost = Pipelines(4);
  leave_out(&lost);
  lost.ranks[2].memberships[0].recorded.Mutable().peers_lost = 1;
  EXPECT_TRUE(Other(lost).empty());
  lost.ranks[2].memberships[0].recorded.Mutable().peers_lost = 0;
  lost.ranks[2].damaged = true;
  EXPECT_TRUE(Other(lost).empty());
}

}  // namespace
}  // namespace lockstep
