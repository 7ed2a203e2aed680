#include "collector/detect/desync_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "proto/wire.pb.h"

namespace lockstep {
namespace {

ring::Snapshot Member(uint64_t issued, uint64_t hash, std::vector<ring::HashCheckpoint> checkpoints) {
  ring::Snapshot snapshot;
  ring::CommSnapshot comm;
  comm.id = 7;
  comm.name = "dp_0";
  comm.size = 2;
  comm.issued_seq = issued;
  comm.signature_hash = hash;
  comm.checkpoints = std::move(checkpoints);
  snapshot.comms.push_back(comm);
  return snapshot;
}

std::vector<Desync> Look(DesyncWatch* watch, const ring::Snapshot& a, const ring::Snapshot& b) {
  return watch->Look({{0, &a}, {1, &b}});
}

TEST(DesyncWatchTest, DifferentSequenceNumbersAreNotADesync) {
  DesyncWatch watch;
  const ring::Snapshot a = Member(130, 1300, {{64, 640}, {128, 1280}}), b = Member(100, 1000, {{64, 640}});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Look(&watch, a, b).empty());
}

TEST(DesyncWatchTest, ADifferentCheckpointIsNoticedAndThenConfirmedOnce) {
  DesyncWatch watch;
  const ring::Snapshot a = Member(130, 1300, {{64, 640}, {128, 1280}}), b = Member(140, 1, {{64, 640}, {128, 2}});
  std::vector<Desync> found = Look(&watch, a, b);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].confirmed);
  found = Look(&watch, a, b);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].confirmed);
  EXPECT_EQ(found[0].comm, 7u);
  EXPECT_EQ(found[0].after, 64u);
  EXPECT_EQ(found[0].seq, 128u);
  EXPECT_EQ(found[0].name, "dp_0");
  EXPECT_TRUE(found[0].even) << "two members have no majority";
  EXPECT_EQ(found[0].odd.List(), (std::vector<int32_t>{0, 1}));
  EXPECT_TRUE(Look(&watch, a, b).empty());
}

TEST(DesyncWatchTest, CheckpointsReadAtDifferentTimesAreCompared) {
  DesyncWatch watch;
  const ring::Snapshot a1 = Member(130, 1, {{112, 1}, {128, 2}}), b1 = Member(162, 2, {{144, 3}, {160, 4}});
  const ring::Snapshot a2 = Member(178, 3, {{160, 99}, {176, 98}}), b2 = Member(210, 4, {{192, 5}, {208, 6}});
  EXPECT_TRUE(Look(&watch, a1, b1).empty());
  const std::vector<Desync> found = Look(&watch, a2, b2);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].seq, 160u);
}

TEST(DesyncWatchTest, HashesThatNoLongerChangeAreCompared) {
  DesyncWatch watch;
  const ring::Snapshot a = Member(5, 50, {}), b = Member(5, 51, {});
  EXPECT_TRUE(Look(&watch, a, b).empty());
  EXPECT_EQ(Look(&watch, a, b).size(), 1u);
}

TEST(DesyncWatchTest, ACellReadDuringAWriteIsIgnored) {
  DesyncWatch watch;
  const ring::Snapshot a = Member(5, 50, {}), torn = Member(5, 40, {}), whole = Member(5, 50, {});
  EXPECT_TRUE(Look(&watch, a, torn).empty());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Look(&watch, a, whole).empty());
}

TEST(DesyncWatchTest, HashesWithdrawnByAFailedGroupAreIgnored) {
  DesyncWatch watch;
  const ring::Snapshot a = Member(20, 1, {{16, 160}}), failed = Member(19, 2, {{16, 999}}),
                       again = Member(21, 3, {{16, 160}});
  EXPECT_EQ(Look(&watch, a, failed).size(), 1u);
  EXPECT_TRUE(Look(&watch, a, again).empty()) << "never confirmed";
}

// A job on several hosts, as seen in its heartbeats. Each member's collectives are a list of signatures.
class DesyncOverHostsTest : public ::testing::Test {
 protected:
  static constexpr int kHosts = 4, kRanksAHost = 2, kRanks = kHosts * kRanksAHost;

  struct Op {
    uint32_t kind = 1, datatype = 7, root = 0;
    uint64_t count = 100;
  };
  static uint64_t Roll(uint64_t hash, const Op& op) {
    hash = (hash ^ (op.kind | uint64_t{op.datatype} << 16 | uint64_t{op.root} << 32)) * 0x9fb21c651e98df25u;
    return (hash + op.count) * 0xd6e8feb86659fd93u ^ hash >> 29;
  }
  void Issue(int rank, const Op& op) {
    ring::CommSnapshot& comm = rings_[static_cast<size_t>(rank)].comms[0];
    comm.signature_hash = Roll(comm.signature_hash, op);
    comm.issued_ns = ++clock_;
    if (++comm.issued_seq % 16 == 0) {
      comm.checkpoints.push_back({comm.issued_seq, comm.signature_hash});
      if (comm.checkpoints.size() > 8) comm.checkpoints.erase(comm.checkpoints.begin());
    }
  }
  void SetUp() override {
    for (int rank = 0; rank < kRanks; ++rank) {
      ring::Snapshot ring = Member(0, 1, {});
      ring.comms[0].size = kRanks;
      ring.comms[0].state = ring::CommState::kReady;
      ring.comms[0].issued_seq = 0;
      rings_.push_back(ring);
    }
  }
  // Each host is read ten times while `steps` operations are issued, at times that differ between hosts. Then the hosts
  // send their heartbeats.
  void Second(int steps, const std::function<Op(int rank, uint64_t seq)>& op) {
    for (int i = 0; i < steps; ++i) {
      for (int rank = 0; rank < kRanks; ++rank)
        Issue(rank, op(rank, rings_[static_cast<size_t>(rank)].comms[0].issued_seq + 1));
      for (int host = 0; host < kHosts; ++host) {
        if ((i + host * 3) % std::max(1, steps / 10) == 0) Observe(host);
      }
    }
    for (int host = 0; host < kHosts; ++host) {
      Observe(host);
      for (const CommBeat& beat : hosts_[host].Take(clock_, lateness_)) {
        CommunicatorBeat proto;
        BeatToProto(beat, &proto);
        for (Desync& desync : watch_.Apply(static_cast<uint32_t>(host), BeatFromProto(proto))) found_.push_back(desync);
      }
    }
  }
  void Observe(int host) {
    std::vector<RingView> views;
    for (int i = 0; i < kRanksAHost; ++i) {
      const int rank = host * kRanksAHost + i;
      views.push_back({rank, &rings_[static_cast<size_t>(rank)]});
    }
    hosts_[host].Observe(views);
  }
  std::vector<ring::Snapshot> rings_;
  HostProgress hosts_[kHosts];
  Lateness lateness_;
  DesyncWatch watch_;
  std::vector<Desync> found_;
  int64_t clock_ = 0;
};

TEST_F(DesyncOverHostsTest, EqualProgramsAreNotReported) {
  for (int second = 0; second < 60; ++second)
    Second(37, [](int, uint64_t seq) { return Op{.kind = static_cast<uint32_t>(seq % 5 + 1)}; });
  EXPECT_TRUE(found_.empty());
}

TEST_F(DesyncOverHostsTest, TheRankAndTheWindowAreNamed) {
  const auto op = [](int rank, uint64_t seq) { return Op{.count = rank == 5 && seq == 1000 ? 99u : 100u}; };
  for (int second = 0; second < 60; ++second) Second(37, op);
  ASSERT_EQ(found_.size(), 2u);
  EXPECT_FALSE(found_[0].confirmed);
  EXPECT_TRUE(found_[1].confirmed);
  EXPECT_EQ(found_[1].odd.List(), std::vector<int32_t>{5});
  EXPECT_FALSE(found_[1].even);
  EXPECT_LT(found_[1].after, 1000u);
  EXPECT_GE(found_[1].seq, 1000u);
  EXPECT_LE(found_[1].seq - found_[1].after, 64u) << "only a few checkpoints apart";
  EXPECT_THAT(DesyncText(found_[1]), ::testing::HasSubstr("rank 5 differs"));
}

TEST_F(DesyncOverHostsTest, TheFirstRankToReportMayBeTheOddOne) {
  const auto op = [](int rank, uint64_t seq) { return Op{.datatype = rank == 0 && seq == 100 ? 9u : 7u}; };
  for (int second = 0; second < 20; ++second) Second(37, op);
  ASSERT_EQ(found_.size(), 2u);
  EXPECT_EQ(found_[1].odd.List(), std::vector<int32_t>{0});
}

TEST_F(DesyncOverHostsTest, AFastCommunicatorIsComparedAtRoundNumbers) {
  const auto op = [](int rank, uint64_t seq) { return Op{.root = rank == 6 && seq >= 5000 ? 1u : 0u}; };
  for (int second = 0; second < 20; ++second) Second(1000, op);
  ASSERT_EQ(found_.size(), 2u);
  EXPECT_EQ(found_[1].odd.List(), std::vector<int32_t>{6});
  EXPECT_LE(found_[1].after, 5000u);
  EXPECT_GE(found_[1].seq, 5000u);
}

TEST_F(DesyncOverHostsTest, ADesyncIsFoundThroughARelay) {
  MergedProgress relay(true);
  std::vector<Desync> found;
  const auto op = [](int rank, uint64_t seq) { return Op{.count = rank == 5 && seq == 1000 ? 99u : 100u}; };
  for (int second = 0; second < 60; ++second) {
    for (int i = 0; i < 37; ++i) {
      for (int rank = 0; rank < kRanks; ++rank)
        Issue(rank, op(rank, rings_[static_cast<size_t>(rank)].comms[0].issued_seq + 1));
      if (i % 4 == 0) {
        for (int host = 0; host < kHosts; ++host) Observe(host);
      }
    }
    for (int host = 0; host < kHosts; ++host) {
      for (const CommBeat& beat : hosts_[host].Take(clock_, lateness_))
        relay.Apply(static_cast<uint32_t>(host), clock_, beat);
    }
    for (const CommBeat& beat : relay.TakeMoved(clock_)) {
      for (Desync& desync : watch_.Apply(1, beat)) found.push_back(desync);
    }
  }
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].odd.List(), std::vector<int32_t>{5});
  EXPECT_LT(found[1].after, 1000u);
  EXPECT_GE(found[1].seq, 1000u);
}

// Arguments that may differ are not in the hash. Sends and receives, from which frameworks build gathers and uneven
// all-to-alls, have their own counts. An all-to-all with a count for every pair is recorded without a count.
TEST_F(DesyncOverHostsTest, LegalDifferencesAreNotReported) {
  for (int second = 0; second < 30; ++second) {
    for (int rank = 0; rank < kRanks; ++rank) {
      ring::CommSnapshot& comm = rings_[static_cast<size_t>(rank)].comms[0];
      for (int peer = 0; peer < kRanks; ++peer) {
        if (comm.peers.size() <= static_cast<size_t>(peer)) comm.peers.push_back({peer, 0, 0, 0, 0, 0, 0});
        comm.peers[static_cast<size_t>(peer)].sends += static_cast<uint64_t>((rank * 7 + peer) % 3);
        comm.peers[static_cast<size_t>(peer)].recvs += static_cast<uint64_t>((peer * 7 + rank) % 3);
      }
    }
    // With kOtherCollective, kind and datatype are equal, and no count is recorded.
    Second(37, [](int, uint64_t) { return Op{.kind = 15, .count = 0}; });
  }
  EXPECT_TRUE(found_.empty());
}

}  // namespace
}  // namespace lockstep
