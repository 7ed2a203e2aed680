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
  EXPECT_TRUE(watch.Look({&a, &b}).empty());
  EXPECT_FALSE(watch.pending());
}

TEST(DesyncWatchTest, ADifferingCheckpointIsReportedOnceAfterASecondLook) {
  DesyncWatch watch;
  const ring::Snapshot a = Member(130, 1300, {{64, 640}, {128, 1280}}), b = Member(140, 1, {{64, 640}, {128, 2}});
  EXPECT_TRUE(watch.Look({&a, &b}).empty());
  EXPECT_TRUE(watch.pending());
  const std::vector<Desync> found = watch.Look({&a, &b});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].comm, 7u);
  EXPECT_EQ(found[0].seq, 128u);
  EXPECT_EQ(found[0].name, "dp_0");
  EXPECT_THAT(found[0].members, ElementsAre(0, 1));
  EXPECT_TRUE(watch.Look({&a, &b}).empty());
}

TEST(DesyncWatchTest, FinalHashesAreCompared) {
  DesyncWatch watch;
  const ring::Snapshot a = Member(5, 50, {}), b = Member(5, 51, {});
  watch.Look({&a, &b});
  EXPECT_EQ(watch.Look({&a, &b}).size(), 1u);
}

TEST(DesyncWatchTest, ACellReadWhileItIsWrittenIsForgotten) {
  DesyncWatch watch;
  const ring::Snapshot a = Member(5, 50, {}), torn = Member(5, 40, {}), whole = Member(5, 50, {});
  EXPECT_TRUE(watch.Look({&a, &torn}).empty());
  EXPECT_TRUE(watch.Look({&a, &whole}).empty());
  EXPECT_TRUE(watch.Look({&a, &whole}).empty());
}

}  // namespace
}  // namespace lockstep
