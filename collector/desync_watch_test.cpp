#include "collector/desync_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;

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

TEST(DesyncWatchTest, DifferentNumbersAreNoDesync) {
  DesyncWatch watch;
  const ring::Snapshot a = Member(130, 1300, {{64, 640}, {128, 1280}}), b = Member(100, 1000, {{64, 640}});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(watch.Look({&a, &b}).empty());
}

TEST(DesyncWatchTest, ADifferingCheckpointIsSeenAndThenConfirmedOnce) {
  DesyncWatch watch;
  const ring::Snapshot a = Member(130, 1300, {{64, 640}, {128, 1280}}), b = Member(140, 1, {{64, 640}, {128, 2}});
  std::vector<Desync> found = watch.Look({&a, &b});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].confirmed);
  found = watch.Look({&a, &b});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].confirmed);
  EXPECT_EQ(found[0].comm, 7u);
  EXPECT_EQ(found[0].seq, 128u);
  EXPECT_EQ(found[0].name, "dp_0");
  EXPECT_THAT(found[0].members, ElementsAre(0, 1));
  EXPECT_TRUE(watch.Look({&a, &b}).empty());
}

TEST(DesyncWatchTest, CheckpointsReadAtDifferentTimesAreCompared) {
  DesyncWatch watch;
  const ring::Snapshot a1 = Member(130, 1, {{112, 1}, {128, 2}}), b1 = Member(162, 2, {{144, 3}, {160, 4}});
  const ring::Snapshot a2 = Member(178, 3, {{160, 99}, {176, 98}}), b2 = Member(210, 4, {{192, 5}, {208, 6}});
  EXPECT_TRUE(watch.Look({&a1, &b1}).empty());
  const std::vector<Desync> found = watch.Look({&a2, &b2});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].seq, 160u);
}

TEST(DesyncWatchTest, HashesThatStandStillAreCompared) {
  DesyncWatch watch;
  const ring::Snapshot a = Member(5, 50, {}), b = Member(5, 51, {});
  EXPECT_TRUE(watch.Look({&a, &b}).empty());
  EXPECT_EQ(watch.Look({&a, &b}).size(), 1u);
}

TEST(DesyncWatchTest, ACellReadWhileItIsWrittenIsNotUsed) {
  DesyncWatch watch;
  const ring::Snapshot a = Member(5, 50, {}), torn = Member(5, 40, {}), whole = Member(5, 50, {});
  EXPECT_TRUE(watch.Look({&a, &torn}).empty());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(watch.Look({&a, &whole}).empty());
}

}  // namespace
}  // namespace lockstep
