// Tests what a round keeps from its digests.
#include "collector/service/core/digest_round.h"
#include "analyzer/util/time_units.h"

#include "analyzer/formats/lsd/columns.h"
#include "analyzer/formats/lsd/convert.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

Communicator Comm(const char* id) {
  Communicator comm;
  comm.id = id;
  comm.size = 2;
  comm.members = {0, 1};
  return comm;
}

Membership Member(int32_t rank) {
  Membership membership;
  membership.member_rank = rank;
  membership.state = ring::CommState::kReady;
  membership.issued = membership.launched = 7;
  membership.peers = {{1 - rank, 3, 4}};
  ring::CommSnapshot& recorded = membership.recorded.Mutable();
  recorded.state = membership.state;
  recorded.member_rank = rank;
  recorded.size = 2;
  recorded.device = rank;
  recorded.issued_seq = recorded.launched_seq = 7;
  recorded.peers = {{1 - rank, 3, 4, 5, 6, 0, 0}};
  return membership;
}

// Returns one rank's digest as its agent sends it, with one communicator per entry of `memberships`.
DigestEnvelope Envelope(int32_t number, const std::vector<Membership>& memberships) {
  static constexpr const char* kIds[] = {"00000000000000a1", "00000000000000a2", "00000000000000a3",
                                         "00000000000000a4", "00000000000000a5", "00000000000000a6"};
  Rank rank;
  rank.rank = number;
  rank.world_size = 2;
  rank.host = "node0";
  rank.captured_ns = 100 * kSecond;
  RankDigest digest;
  *digest.mutable_rank() = EncodeRank(rank);
  for (size_t i = 0; i < memberships.size(); ++i)
    *digest.add_communicators() = EncodeMembership(memberships[i], Comm(kIds[i]), number, static_cast<uint32_t>(i));
  *digest.mutable_in_flight() = EncodeOps(rank, {}, {});
  DigestEnvelope envelope;
  envelope.set_host("node0");
  envelope.add_ranks(digest.SerializeAsString());
  return envelope;
}

TEST(DigestRoundTest, KeepsOnlyWhatTheAnalysisUses) {
  std::vector<Membership> first(6, Member(0)), second(6, Member(1));
  first[1].recorded.Mutable().blocking = false;
  first[2].recorded.Mutable().peers_lost = 3;
  first[3].recorded.Mutable().excluded = {1};
  first[4].recorded.Mutable().async_error_ns = 42;
  first[5].recorded.Mutable().peers[0].signals = 9;
  DigestRound round;
  round.Add(Envelope(0, first), 0);
  round.Add(Envelope(1, second), 0);
  round.Analyse({});
  ASSERT_EQ(round.ranks(), 2u);
  const std::vector<Membership>& kept = round.bundle().ranks[0].memberships;
  ASSERT_EQ(kept.size(), 6u);
  for (const Membership& membership : kept) {
    EXPECT_EQ(membership.issued, 7);
    ASSERT_EQ(membership.peers.size(), 1u);
    EXPECT_EQ(membership.peers[0].recvs, 4);
  }
  EXPECT_TRUE(kept[0].recorded->blocking);
  // Fields that the analysis does not use are dropped, because there may be a hundred thousand ranks.
  EXPECT_EQ(kept[0].recorded->device, -1);
  EXPECT_TRUE(kept[0].recorded->peers.empty());
  EXPECT_FALSE(kept[1].recorded->blocking);
  EXPECT_EQ(kept[2].recorded->peers_lost, 3u);
  EXPECT_EQ(kept[3].recorded->excluded, std::vector<int32_t>({1}));
  EXPECT_EQ(kept[4].recorded->async_error_ns, 42);
  ASSERT_EQ(kept[5].recorded->peers.size(), 1u);
  EXPECT_EQ(kept[5].recorded->peers[0].signals, 9u);
  EXPECT_EQ(round.bundle().ranks[1].memberships[1].recorded->device, -1);
}

TEST(DigestRoundTest, ABoxedValueIsCopiedAndReadsAsEmptyIfItIsMissing) {
  Boxed<ring::CommSnapshot> empty;
  EXPECT_EQ(empty->device, -1);
  Boxed<ring::CommSnapshot> full;
  full.Mutable().device = 3;
  Boxed<ring::CommSnapshot> copy(full);
  copy.Mutable().device = 4;
  EXPECT_EQ(full->device, 3);
  full = copy;
  EXPECT_EQ(full->device, 4);
  full = empty;
  EXPECT_EQ(full->device, -1);
  copy.Clear();
  EXPECT_EQ(copy->device, -1);
}

}  // namespace
}  // namespace lockstep
