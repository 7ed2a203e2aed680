#include "collector/service/core/known_members.h"
#include "analyzer/util/time_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "absl/strings/str_join.h"
#include "analyzer/testing/job.h"
#include "collector/testing/fleet.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

CommBeat Beat(uint64_t comm, int32_t size, std::vector<int32_t> members) {
  CommBeat beat;
  beat.comm = comm;
  beat.size = size;
  beat.issued_min = beat.issued_max = 7;
  beat.members = Ranks::Of(std::move(members));
  return beat;
}

Bundle With(const std::string& id, std::vector<int32_t> members) {
  Bundle bundle;
  bundle.comms.emplace_back();
  bundle.comms[0].id = id;
  bundle.comms[0].size = static_cast<int32_t>(members.size());
  bundle.comms[0].members = std::move(members);
  return bundle;
}

TEST(KnownMembersTest, HeartbeatsShowTheMissingRanks) {
  MergedProgress progress;
  progress.Apply(1, kSecond, Beat(0xa, 4, {0, 2}));
  progress.Apply(2, kSecond, Beat(0xa, 4, {4, 6}));
  progress.Apply(1, kSecond, Beat(0xb, 2, {0, 1}));
  progress.Apply(1, kSecond, Beat(0xc, 8, {0, 1, 6}));  // the other ranks have not reported
  const std::vector<KnownMembers> known = MembersWith(progress, Ranks({6}));
  ASSERT_EQ(known.size(), 1u) << "ranks in no communicator need none";
  EXPECT_EQ(known[0].comm, 0xau);
  EXPECT_THAT(known[0].ranks, ElementsAre(0, 2, 4, 6));
  EXPECT_TRUE(MembersWith(progress, Ranks()).empty());

  Bundle bundle = With("000000000000000a", {0, 2, -1, -1});
  FillMembers(known, &bundle);
  EXPECT_THAT(bundle.comms[0].members, ElementsAre(0, 2, 4, 6));
  bundle = With("000000000000000a", {-1, 6, 0, -1});
  FillMembers(known, &bundle);
  EXPECT_THAT(bundle.comms[0].members, ElementsAre(2, 6, 0, 4)) << "known places must stay";
  bundle = With("000000000000000a", {-1, 9, 0, -1});
  FillMembers(known, &bundle);
  EXPECT_THAT(bundle.comms[0].members, ElementsAre(-1, 9, 0, -1)) << "this is another communicator";
  bundle = With("000000000000000a", {-1, -1});
  FillMembers(known, &bundle);
  EXPECT_THAT(bundle.comms[0].members, ElementsAre(-1, -1));
  bundle = With("tp_3/77", {-1});
  FillMembers(known, &bundle);
  EXPECT_THAT(bundle.comms[0].members, ElementsAre(-1));
}

// The host loses power, so its exit is not reported. The others' waits were reported before.
TEST(KnownMembersTest, OnlyALostHostIsTheCause) {
  const support::TempFolder folder;
  testing::Job job(2, 2, 2, 4);
  for (const size_t rank : {4u, 5u}) {
    job.ranks[rank].host_fault = testing::HostFault::kStall;
    job.ranks[rank].host_fault_at = job.Find(static_cast<int>(rank), "dp", 2);
  }
  testing::Fleet fleet(job.Run(), 2, folder.path());
  fleet.Start();
  fleet.Pass(60 * kSecond);
  fleet.stop_ns = fleet.now;
  fleet.agents[2].connected = false;
  ASSERT_TRUE(fleet.PassUntil(60 * kSecond, [&] { return !fleet.verdicts.empty(); }))
      << absl::StrJoin(fleet.said, "\n");
  EXPECT_EQ(fleet.decisions.back().rule, "lost host") << fleet.printed[0];
  for (const int32_t root : fleet.decisions.back().roots) EXPECT_TRUE(root == 4 || root == 5) << root;
  EXPECT_FALSE(fleet.decisions.back().roots.empty());
  EXPECT_THAT(fleet.printed[0], ::testing::HasSubstr("node2"));
}

}  // namespace
}  // namespace lockstep
