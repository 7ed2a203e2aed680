#include "collector/detect/digest_view.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

ring::Snapshot Digest() {
  ring::Snapshot digest;
  ring::CommSnapshot comm;
  comm.id = 5;
  comm.state = ring::CommState::kReady;
  comm.issued_seq = 10;
  comm.issued_ns = 100;
  comm.peers.push_back({1, 3, 4, 200, 150});
  digest.comms.push_back(comm);
  ring::ThreadSnapshot thread;
  digest.threads.push_back(thread);
  ring::StreamSnapshot stream;
  stream.marked = true;
  stream.issued = stream.completed = 4;
  digest.streams.push_back(stream);
  return digest;
}

TEST(DigestViewTest, OutsideCallsNothingWaits) {
  const DigestView view = ViewOf(Digest());
  ASSERT_EQ(view.comms.size(), 1u);
  EXPECT_EQ(view.comms[0].total, 17u);
  EXPECT_EQ(view.comms[0].collectives, 10u);
  EXPECT_EQ(view.comms[0].issued_ns, 200);
  EXPECT_TRUE(view.comms[0].active);
  EXPECT_EQ(view.blocked_since_ns, 0);
  EXPECT_FALSE(view.gpu_in_flight);
}

TEST(DigestViewTest, TheEarliestCallOrWaitCounts) {
  ring::Snapshot digest = Digest();
  digest.threads[0].call = ring::CallKind::kAllReduce;
  digest.threads[0].seq = 11;
  digest.threads[0].since_ns = 900;
  ring::ThreadSnapshot other;
  other.wait = ring::CallKind::kStreamSynchronize;
  other.wait_since_ns = 300;
  digest.threads.push_back(other);
  DigestView view = ViewOf(digest);
  EXPECT_EQ(view.blocked_since_ns, 300);
  EXPECT_EQ(view.doing, "cudaStreamSynchronize");
  digest.threads.pop_back();
  view = ViewOf(digest);
  EXPECT_EQ(view.doing, "AllReduce #11");
  EXPECT_FALSE(view.in_init);
  digest.threads[0].call = ring::CallKind::kCommInitRank;
  EXPECT_TRUE(ViewOf(digest).in_init);
}

TEST(DigestViewTest, ProgressIsIssuedAndFinishedWorkNotWaits) {
  const uint64_t before = ViewOf(Digest()).progress_mark;
  ring::Snapshot digest = Digest();
  digest.threads[0].wait = ring::CallKind::kStreamSynchronize;
  digest.threads[0].wait_since_ns = 1;
  EXPECT_EQ(ViewOf(digest).progress_mark, before);
  digest.streams[0].issued = 5;
  EXPECT_TRUE(ViewOf(digest).gpu_in_flight);
  digest.streams[0].completed = 5;
  EXPECT_NE(ViewOf(digest).progress_mark, before);
  digest = Digest();
  digest.comms[0].peers[0].sends = 4;
  EXPECT_NE(ViewOf(digest).progress_mark, before);
}

TEST(DigestViewTest, ARingWithoutAWriterWaitsForNothing) {
  ring::Snapshot digest = Digest();
  digest.threads[0].call = ring::CallKind::kAllReduce;
  digest.threads[0].since_ns = 5;
  ASSERT_NE(ViewOf(digest).blocked_since_ns, 0);
  ASSERT_FALSE(ViewOf(digest).comms.empty());
  for (const auto state : {ring::RecorderState::kStopped, ring::RecorderState::kReplaced}) {
    digest.process.state = state;
    const DigestView view = ViewOf(digest);
    EXPECT_EQ(view.blocked_since_ns, 0);
    EXPECT_FALSE(view.gpu_in_flight);
    EXPECT_TRUE(view.comms.empty()) << "its sequence numbers must not make any rank wait";
  }
}

}  // namespace
}  // namespace lockstep
