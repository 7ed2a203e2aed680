#include "collector/rings/snapshot_merge.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

ring::OpSnapshot Op(uint32_t thread, uint64_t index, uint64_t seq, int64_t return_ns) {
  ring::OpSnapshot op;
  op.comm = 0;
  op.kind = ring::CallKind::kAllReduce;
  op.thread = thread;
  op.index = index;
  op.seq = seq;
  op.return_ns = return_ns;
  return op;
}

TEST(SnapshotMergeTest, RestoresOverwrittenOperationsInProgramOrder) {
  ring::Snapshot earlier, later;
  earlier.ops = {Op(0, 1, 1, 5), Op(0, 2, 2, 0), Op(1, 1, 3, 9)};
  later.ops = {Op(0, 2, 2, 7), Op(0, 3, 4, 8)};
  MergeEarlierOps(earlier, &later);
  ASSERT_EQ(later.ops.size(), 4u);
  EXPECT_EQ(later.ops[0].seq, 1u);
  EXPECT_EQ(later.ops[1].seq, 2u);
  EXPECT_EQ(later.ops[1].return_ns, 7) << "the later reading of an operation must count";
  EXPECT_EQ(later.ops[2].seq, 4u);
  EXPECT_EQ(later.ops[3].thread, 1u);
}

TEST(SnapshotMergeTest, MarkersThatLandAfterDeathAreLabelled) {
  ring::Snapshot last, later;
  last.streams.resize(2);
  last.streams[0].index = 0;
  last.streams[0].issued = 9;
  last.streams[0].started = 5;
  last.streams[0].completed = 4;
  last.streams[1].index = 1;
  last.streams[1].completed = 7;
  later = last;
  later.streams[0].started = 6;
  later.streams[0].completed = 6;
  AddLateMarks(later, &last);
  EXPECT_EQ(last.streams[0].completed, 6u);
  EXPECT_EQ(last.streams[0].late_completed, 2u);
  EXPECT_EQ(last.streams[0].late_started, 1u);
  EXPECT_EQ(last.streams[1].late_completed, 0u);
  later.streams[0].completed = 8;
  AddLateMarks(later, &last);
  EXPECT_EQ(last.streams[0].late_completed, 4u) << "late completions add up";
  later.streams[0].handle = 1;
  later.streams[0].completed = 9;
  AddLateMarks(later, &last);
  EXPECT_EQ(last.streams[0].completed, 8u) << "another stream has this index now";
}

}  // namespace
}  // namespace lockstep
