// Tests CUDA graphs as the recorder sees them: captured operations, launches, and captures that the recorder must not
// disturb.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "recorder/ring/reader.h"
#include "tests/support/preload.h"

namespace lockstep {
namespace {

using ring::CallKind;
using ring::GraphSnapshot;
using ring::GraphState;
using ring::OpSnapshot;
using ring::OpStage;
using ring::Snapshot;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class GraphTest : public support::PreloadRuns {
 protected:
  int Run(const std::string& mode, const std::string& environment, bool preload, std::string* out) const {
    const support::Outcome outcome =
        PreloadRuns::Run("'" LOCKSTEP_GRAPH_PROGRAM "' " + mode + " 2>&1", preload ? LOCKSTEP_LIBRARY : "",
                         "RANK=0 WORLD_SIZE=1 " + environment);
    *out = outcome.out;
    return outcome.status;
  }
  // Returns the only ring of a run, which must behave as without the recorder.
  Snapshot Record(const std::string& mode, const std::string& environment) const {
    std::string out, bare;
    EXPECT_EQ(Run(mode, "", false, &bare), Run(mode, environment, true, &out)) << out;
    EXPECT_EQ(out, bare) << "with the recorder: " << environment;
    return OnlyRing();
  }
};

std::vector<uint64_t> Numbers(const Snapshot& ring, CallKind kind, OpStage stage) {
  std::vector<uint64_t> numbers;
  for (const OpSnapshot& op : ring.ops) {
    if (op.kind == kind && op.stage == stage) numbers.push_back(op.seq);
  }
  return numbers;
}

class EachMarksTest : public GraphTest, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Marks, EachMarksTest, ::testing::Values("off", "done", "full", "events"),
                         [](const auto& mode) { return std::string(mode.param); });

// A watcher uses this data. It reads often, so it does not read the whole ring.
TEST_F(GraphTest, ADigestShowsWhatTheNewestLaunchesIssued) {
  const Snapshot ring = Record("replays", "LOCKSTEP_GPU=done");
  ring::ReadOptions options;
  options.digest_only = true;
  Snapshot digest;
  std::string error;
  ASSERT_TRUE(ring::ReadRingFile(RingPaths()[0], options, &digest, &error)) << error;
  EXPECT_THAT(digest.ops, IsEmpty());
  options.in_flight = true;
  ASSERT_TRUE(ring::ReadRingFile(RingPaths()[0], options, &digest, &error)) << error;
  EXPECT_EQ(Numbers(digest, CallKind::kBroadcast, OpStage::kLaunched),
            Numbers(ring, CallKind::kBroadcast, OpStage::kLaunched));
  EXPECT_THAT(digest.graphs, SizeIs(1));
  ASSERT_THAT(digest.comms, SizeIs(1));
  EXPECT_EQ(digest.comms[0].lost_records, 0u);
}

TEST_P(EachMarksTest, LaunchesIssueTheCapturedCallsInTheirOrder) {
  const Snapshot ring = Record("replays", std::string("LOCKSTEP_GPU=") + GetParam());
  ASSERT_THAT(ring.graphs, SizeIs(1));
  const GraphSnapshot& graph = ring.graphs[0];
  EXPECT_EQ(graph.state, GraphState::kCaptured);
  EXPECT_EQ(graph.operations, 6u);
  EXPECT_EQ(graph.operations_lost, 0u);
  EXPECT_EQ(graph.launches, 5u);
  EXPECT_EQ(graph.completed, std::string(GetParam()) == "off" ? 0u : 5u);
  EXPECT_GT(graph.captured_ns, 0);
  EXPECT_GT(graph.last_launch_ns, graph.captured_ns);
  // Captured operations have no number. One call precedes the capture, each launch issues four collectives (the last is
  // not of this kind), and one call follows.
  EXPECT_THAT(Numbers(ring, CallKind::kAllReduce, OpStage::kCaptured), ElementsAre(0, 0, 0));
  EXPECT_THAT(Numbers(ring, CallKind::kAllReduce, OpStage::kLaunched),
              ElementsAre(1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 14, 16, 17, 18, 19, 21, 22, 23, 24, 26));
  EXPECT_THAT(Numbers(ring, CallKind::kBroadcast, OpStage::kLaunched), ElementsAre(5, 10, 15, 20, 25));
  EXPECT_THAT(Numbers(ring, CallKind::kSend, OpStage::kLaunched), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(Numbers(ring, CallKind::kRecv, OpStage::kLaunched), ElementsAre(1, 2, 3, 4, 5));
  ASSERT_THAT(ring.comms, SizeIs(1));
  EXPECT_EQ(ring.comms[0].issued_seq, 26u);
  EXPECT_EQ(ring.comms[0].launched_seq, 26u);
  EXPECT_EQ(ring.comms[0].lost_records, 0u);
  ASSERT_THAT(ring.comms[0].peers, SizeIs(1));
  EXPECT_EQ(ring.comms[0].peers[0].sends, 5u);
  uint64_t index = 0, tickets = 0;
  for (const OpSnapshot& op : ring.ops) {
    if (op.kind == CallKind::kGroup || op.seq == 0) continue;
    EXPECT_GT(op.index, index);
    index = op.index;
    if (op.replay == 0) continue;
    EXPECT_EQ(op.graph, graph.id);
    EXPECT_NE(op.caller, 0u);
    EXPECT_EQ(op.group != 0, ring::IsPointToPoint(op.kind));
    EXPECT_EQ(op.place, op.kind == CallKind::kBroadcast ? 4u
                        : op.kind == CallKind::kSend    ? 5u
                        : op.kind == CallKind::kRecv    ? 6u
                                                        : op.place);
    tickets += op.ticket != 0;
  }
  EXPECT_EQ(tickets, std::string(GetParam()) == "off" ? 0u : 30u);
}

// A rank that replays a step gets the same hash as a rank that issues the calls one by one.
TEST_F(GraphTest, AReplayHashesLikeTheCallsThatItReplaces) {
  const Snapshot ring = Record("beside", "LOCKSTEP_GPU=done");
  ASSERT_THAT(ring.comms, SizeIs(2));
  EXPECT_EQ(ring.comms[0].issued_seq, 1u + 3 * 10);
  EXPECT_EQ(ring.comms[0].issued_seq, ring.comms[1].issued_seq);
  EXPECT_NE(ring.comms[0].signature_hash, 0u);
  EXPECT_EQ(ring.comms[0].signature_hash, ring.comms[1].signature_hash);
}

TEST_P(EachMarksTest, CapturesOfEveryModeStayUnchanged) {
  const Snapshot ring = Record("modes", std::string("LOCKSTEP_GPU=") + GetParam());
  size_t captured = 0;
  for (const GraphSnapshot& graph : ring.graphs) captured += graph.operations == 7 && graph.launches == 3;
  EXPECT_EQ(captured, 6u);
  EXPECT_EQ(ring.graphs[6].state, GraphState::kSpoilt);
  EXPECT_EQ(ring.graphs[7].state, GraphState::kCaptured);
  for (const ring::StreamSnapshot& stream : ring.streams) EXPECT_EQ(stream.first_error, 0);
}

TEST_F(GraphTest, ClonesUpdatesChildrenAndNestedLaunchesAreCounted) {
  const Snapshot ring = Record("kin", "LOCKSTEP_GPU=done");
  ASSERT_THAT(ring.graphs, SizeIs(3));
  EXPECT_EQ(ring.graphs[0].launches, 4u);  // the graph itself, its clone twice, and the graph as a child
  EXPECT_EQ(ring.graphs[1].launches, 1u);  // the graph that the executable graph was updated to
  EXPECT_EQ(ring.graphs[2].launches, 2u);  // one of the two launches follows a failed one
  EXPECT_EQ(ring.graphs[2].operations, 7u);
  EXPECT_EQ(ring.graphs[2].operations_lost, 0u);
  EXPECT_EQ(ring.graphs[0].state, GraphState::kEnded);
  EXPECT_EQ(ring.graphs[2].state, GraphState::kCaptured);  // its executable graph still exists
  ASSERT_THAT(ring.comms, SizeIs(1));
  EXPECT_EQ(ring.comms[0].issued_seq, 4u * 5 + 5 * 2);
  EXPECT_EQ(ring.comms[0].lost_records, 0u);
}

TEST_F(GraphTest, TheRingShowsTheReplayAfterTheProcessIsKilled) {
  std::string out;
  const int status = Run("stuck", "LOCKSTEP_GPU=full", true, &out);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 128 + 9) << status << out;
  const Snapshot ring = OnlyRing();
  ASSERT_THAT(ring.graphs, SizeIs(1));
  EXPECT_EQ(ring.graphs[0].launches, 4u);
  EXPECT_EQ(ring.graphs[0].completed, 2u);
  ASSERT_LT(ring.graphs[0].stream, ring.streams.size());
  EXPECT_EQ(ring.streams[ring.graphs[0].stream].completed, 2u);
  EXPECT_EQ(ring.streams[ring.graphs[0].stream].started, 2u);  // the work before the third launch is not NCCL's
  EXPECT_EQ(ring.ops.back().replay, 4u);
}

// A statically linked runtime is recognized by its lookups in the driver.
TEST_F(GraphTest, AStaticRuntimeIsRecognizedByTheDriversLookups) {
  std::string out;
  Run("static", "LOCKSTEP_GPU=done", true, &out);
  const Snapshot ring = OnlyRing();
  ASSERT_THAT(ring.graphs, SizeIs(1));
  EXPECT_EQ(ring.graphs[0].launches, 5u);
  EXPECT_EQ(ring.graphs[0].operations, 6u);
  EXPECT_EQ(ring.comms[0].issued_seq, 1u + 5 * 4 + 1);
  ASSERT_THAT(ring.streams, SizeIs(2));
  ASSERT_THAT(ring.streams[1].depends_on, SizeIs(1));
  EXPECT_EQ(ring.streams[1].depends_on[0].stream, 0u);
  EXPECT_EQ(ring.streams[1].depends_on[0].ticket, 6u);
  ASSERT_THAT(ring.threads, SizeIs(::testing::Ge(1)));
  EXPECT_EQ(ring.threads[0].wait, CallKind::kStreamSynchronize);
  EXPECT_EQ(ring.threads[0].wait_stream, 0u);
  EXPECT_EQ(ring.threads[0].wait_ticket, 6u);
}

// Like the real runtime, the stand-in calls the driver. A launch counts once, whichever layers are intercepted.
TEST_F(GraphTest, ACallThroughBothLayersIsOneRecord) {
  for (const char* layers : {"on", "runtime", "driver"}) {
    std::filesystem::remove_all(folder_ + "/rings");
    const Snapshot ring = Record("replays", std::string("LOCKSTEP_CUDA=") + layers);
    ASSERT_THAT(ring.graphs, SizeIs(1)) << layers;
    EXPECT_EQ(ring.graphs[0].launches, 5u) << layers;
    EXPECT_EQ(ring.comms[0].issued_seq, 26u) << layers;
  }
  std::filesystem::remove_all(folder_ + "/rings");
  // Nothing is intercepted here. Captured operations are recognized by the query for markers; launched ones are not.
  const Snapshot ring = Record("replays", "LOCKSTEP_CUDA=off LOCKSTEP_GPU=done");
  EXPECT_THAT(Numbers(ring, CallKind::kAllReduce, OpStage::kCaptured), ElementsAre(0, 0, 0));
  EXPECT_EQ(ring.comms[0].issued_seq, 6u);
  ASSERT_THAT(ring.graphs, SizeIs(1));
  EXPECT_EQ(ring.graphs[0].launches, 0u);
}

TEST_F(GraphTest, ACapturedGroupEndsOnTheSharedRing) {
  const Snapshot ring = Record("shared", "LOCKSTEP_RING_KIB=512");
  for (const CallKind kind : {CallKind::kSend, CallKind::kRecv}) {
    EXPECT_THAT(Numbers(ring, kind, OpStage::kCaptured), ElementsAre(0));
    EXPECT_THAT(Numbers(ring, kind, OpStage::kQueued), IsEmpty());
  }
}

TEST_F(GraphTest, ExcessGraphsReuseTheTablesEntries) {
  const Snapshot ring = Record("many", "LOCKSTEP_GPU=done LOCKSTEP_RING_KIB=512");
  EXPECT_THAT(ring.graphs, SizeIs(32));
  uint64_t launches = 0;
  for (const GraphSnapshot& graph : ring.graphs) {
    EXPECT_EQ(graph.state, GraphState::kEnded);
    EXPECT_EQ(graph.operations, 20u);
    launches += graph.launches;
  }
  EXPECT_EQ(launches, 32u * 3);
  ASSERT_THAT(ring.comms, SizeIs(1));
  EXPECT_EQ(ring.comms[0].issued_seq, 80u * 3 * 20);
  EXPECT_EQ(ring.records_lost, 0u);
}

}  // namespace
}  // namespace lockstep
