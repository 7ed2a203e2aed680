#include "analyzer/formats/ring/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/formats/merge.h"
#include "analyzer/formats/ring/runs.h"
#include "analyzer/formats/ring/states.h"
#include "proto/process.pb.h"

namespace lockstep {
namespace {

using ring::CallKind;
using ring::OpStage;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ring::CommSnapshot Comm(uint32_t index, uint64_t id, int32_t member, int32_t size, uint64_t issued = 0) {
  ring::CommSnapshot comm;
  comm.index = index;
  comm.id = id;
  comm.state = ring::CommState::kReady;
  comm.origin = CallKind::kCommInitRank;
  comm.member_rank = member;
  comm.size = size;
  comm.device = 0;
  comm.issued_seq = comm.launched_seq = issued;
  return comm;
}

ring::OpSnapshot Call(uint32_t comm, uint64_t seq, OpStage stage, uint64_t ticket) {
  ring::OpSnapshot op;
  op.comm = comm;
  op.kind = CallKind::kAllReduce;
  op.stage = stage;
  op.seq = seq;
  op.index = seq;
  op.stream = 0;
  op.ticket = ticket;
  op.enter_ns = static_cast<int64_t>(seq) * 1000;
  op.return_ns = op.enter_ns + 10;
  return op;
}

RingInput Ring(int32_t rank, int32_t world, int32_t pid = 0) {
  RingInput input;
  input.path = absl::StrCat("/rings/", pid != 0 ? pid : 1000 + rank, ".ring");
  input.snapshot.process.job = "train";
  input.snapshot.process.host = "node0";
  input.snapshot.process.rank = rank;
  input.snapshot.process.world_size = world;
  input.snapshot.process.pid = pid != 0 ? pid : 1000 + rank;
  input.snapshot.threads.emplace_back();
  return input;
}

ring::StreamSnapshot Stream(uint64_t issued, uint64_t started, uint64_t completed) {
  ring::StreamSnapshot stream;
  stream.marked = true;
  stream.device = 0;
  stream.issued = issued;
  stream.started = started;
  stream.completed = completed;
  return stream;
}

TEST(RingLoader, StagesAndMarkersGiveStates) {
  const ring::StreamSnapshot stream = Stream(9, 6, 5);
  ring::StreamSnapshot unmarked = stream;
  unmarked.marked = false;
  using ring::GpuMarks;
  EXPECT_EQ(StateOf(OpStage::kEntered, 5, &stream, GpuMarks::kFull), OpState::kEntered);
  EXPECT_EQ(StateOf(OpStage::kQueued, 0, &stream, GpuMarks::kFull), OpState::kQueued);
  EXPECT_EQ(StateOf(OpStage::kFailed, 5, &stream, GpuMarks::kFull), OpState::kFailed);
  EXPECT_EQ(StateOf(OpStage::kSimulated, 5, &stream, GpuMarks::kFull), OpState::kFailed);
  EXPECT_EQ(StateOf(OpStage::kCaptured, 5, &stream, GpuMarks::kFull), OpState::kCaptured);
  EXPECT_EQ(StateOf(OpStage::kLaunched, 5, &stream, GpuMarks::kFull), OpState::kCompleted);
  EXPECT_EQ(StateOf(OpStage::kLaunched, 6, &stream, GpuMarks::kFull), OpState::kStarted);
  EXPECT_EQ(StateOf(OpStage::kLaunched, 7, &stream, GpuMarks::kFull), OpState::kEnqueued);
  EXPECT_EQ(StateOf(OpStage::kLaunched, 6, &stream, GpuMarks::kDone), OpState::kIncomplete);
  EXPECT_EQ(StateOf(OpStage::kLaunched, 5, &stream, GpuMarks::kOff), OpState::kUnknown);
  EXPECT_EQ(StateOf(OpStage::kLaunched, 0, &stream, GpuMarks::kFull), OpState::kUnknown);
  EXPECT_EQ(StateOf(OpStage::kLaunched, 5, &unmarked, GpuMarks::kFull), OpState::kUnknown);
  EXPECT_EQ(StateOf(OpStage::kLaunched, 5, nullptr, GpuMarks::kFull), OpState::kUnknown);
}

TEST(RingLoader, ProgressFollowsFromMarkers) {
  RingInput input = Ring(0, 2);
  input.snapshot.process.gpu_marks = ring::GpuMarks::kFull;
  input.snapshot.comms = {Comm(4, 0xabc, 0, 2, 42)};
  input.snapshot.streams = {Stream(12, 11, 10)};
  for (uint64_t seq = 38; seq <= 42; ++seq) input.snapshot.ops.push_back(Call(4, seq, OpStage::kLaunched, seq - 30));
  const Bundle bundle = BundleFromRings({input});
  ASSERT_EQ(bundle.ranks.size(), 1u);
  const Membership& m = bundle.ranks[0].memberships[0];
  EXPECT_EQ(m.issued, 42);
  EXPECT_EQ(m.completed, 40);
  EXPECT_EQ(m.started, 41);
  EXPECT_EQ(m.first_seq, 1);
  EXPECT_TRUE(bundle.ranks[0].start_recorded);
  EXPECT_EQ(bundle.ranks[0].ops[2].state, OpState::kCompleted);
  EXPECT_EQ(bundle.ranks[0].ops[3].state, OpState::kStarted);
  EXPECT_EQ(bundle.ranks[0].ops[4].state, OpState::kEnqueued);
}

TEST(RingLoader, WithoutMarkersProgressIsUnknown) {
  RingInput off = Ring(0, 2), first = Ring(1, 2);
  off.snapshot.comms = {Comm(0, 0xabc, 0, 2, 3)};
  off.snapshot.ops = {Call(0, 3, OpStage::kLaunched, 0)};
  first.snapshot.process.gpu_marks = ring::GpuMarks::kDone;
  first.snapshot.comms = {Comm(0, 0xabc, 1, 2, 1)};
  first.snapshot.streams = {Stream(1, 0, 0)};
  first.snapshot.ops = {Call(0, 1, OpStage::kLaunched, 1)};
  const Bundle bundle = BundleFromRings({off, first});
  EXPECT_EQ(bundle.ranks[0].memberships[0].completed, kUnknown);
  EXPECT_EQ(bundle.ranks[0].memberships[0].started, kUnknown);
  EXPECT_EQ(bundle.ranks[1].memberships[0].completed, kNone);
  EXPECT_EQ(bundle.ranks[1].memberships[0].started, kUnknown);
  EXPECT_EQ(bundle.ranks[1].ops[0].state, OpState::kIncomplete);
}

TEST(RingLoader, EarlierWorkOnTheStreamCountsEvenWithoutItsRecord) {
  RingInput input = Ring(0, 2);
  input.snapshot.process.gpu_marks = ring::GpuMarks::kDone;
  input.snapshot.comms = {Comm(0, 0xabc, 0, 2, 100)};
  input.snapshot.streams = {Stream(500, 0, 499)};
  input.snapshot.ops = {Call(0, 100, OpStage::kLaunched, 500)};
  EXPECT_EQ(BundleFromRings({input}).ranks[0].memberships[0].completed, 99);
  input.snapshot.streams = {Stream(500, 0, 400)};  // earlier work on the stream is unfinished, so the state of call 99
                                                   // is unknown
  EXPECT_EQ(BundleFromRings({input}).ranks[0].memberships[0].completed, kUnknown);
}

TEST(RingLoader, CommunicatorsMergeByIdentity) {
  std::vector<RingInput> rings;
  for (int rank : {2, 0, 3}) {
    rings.push_back(Ring(rank, 4));
    rings.back().snapshot.comms = {Comm(1, 0x1, rank, 4), Comm(2, rank / 2 == 0 ? 0x20 : 0x21, rank % 2, 2)};
    rings.back().snapshot.comms[0].name = "world";
    rings.back().snapshot.comms[1].parent_id = 0x1;
  }
  const Bundle bundle = BundleFromRings(rings);
  ASSERT_EQ(bundle.comms.size(), 3u);
  EXPECT_EQ(bundle.comms[0].id, "0000000000000001");
  EXPECT_EQ(bundle.comms[0].name, "world");
  EXPECT_THAT(bundle.comms[0].members, ElementsAre(0, -1, 2, 3));
  EXPECT_THAT(bundle.comms[1].members, ElementsAre(0, -1));
  EXPECT_THAT(bundle.comms[2].members, ElementsAre(2, 3));
  EXPECT_EQ(bundle.comms[2].parent_id, bundle.comms[0].id);
  EXPECT_EQ(bundle.ranks_expected, 4);
  EXPECT_EQ(bundle.job, "train");
  ASSERT_EQ(bundle.ranks.size(), 3u);
  EXPECT_EQ(bundle.ranks[1].rank, 2);
  EXPECT_TRUE(bundle.problems.empty());
}

TEST(RingLoader, RanksWithoutALauncherAreNumberedByTheWorld) {
  std::vector<RingInput> rings;
  for (int member : {2, 0, 1}) {
    rings.push_back(Ring(-1, -1, 500 - member));
    rings.back().snapshot.comms = {Comm(0, 0x77, member, 3), Comm(1, 0x88, member == 0 ? 0 : 1, 2)};
  }
  const Bundle bundle = BundleFromRings(rings);
  ASSERT_EQ(bundle.ranks.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(bundle.ranks[static_cast<size_t>(rank)].pid, 500 - rank);
  EXPECT_EQ(bundle.ranks_expected, 3);
}

// Tests rings of unnamed jobs in one folder.
class RingRuns : public ::testing::Test {
 protected:
  // Adds a run of `size` processes that share a communicator.
  void Add(uint64_t comm, int32_t size, int64_t began_s, bool numbered) {
    for (int32_t r = 0; r < size; ++r) {
      RingInput input = Ring(numbered ? r : -1, numbered ? size : -1, static_cast<int32_t>(comm) * 100 + r);
      input.snapshot.process.job = "job";
      input.snapshot.process.created_real_ns = (1'000'000 + began_s) * 1'000'000'000;
      input.snapshot.comms.push_back(Comm(0, comm, r, size));
      rings_.push_back(std::move(input));
    }
  }
  std::map<std::string, int> Named() {
    NameRuns(&rings_);
    std::map<std::string, int> jobs;
    for (const RingInput& input : rings_) ++jobs[input.snapshot.process.job];
    return jobs;
  }
  std::vector<RingInput> rings_;
};

TEST_F(RingRuns, RunsWithoutRanksAreDistinguishedByTime) {
  Add(1, 22, 0, false);
  Add(2, 22, 3600, false);
  EXPECT_THAT(Named(), ElementsAre(std::pair("job@1970-01-12T13:46:40", 22), std::pair("job@1970-01-12T14:46:40", 22)));
  BundleBuilder builder;
  AddRings(rings_, &builder);
  EXPECT_EQ(builder.Jobs().size(), 2u);
  builder.SetJob("job@1970-01-12T13:46:40");
  const Bundle bundle = builder.Finish();
  ASSERT_EQ(bundle.ranks.size(), 22u);
  EXPECT_EQ(bundle.ranks.back().rank, 21);
  EXPECT_EQ(bundle.ranks_expected, 22);
}

TEST_F(RingRuns, SimultaneousRunsAreDistinguishedByRanksAndWorlds) {
  Add(1, 4, 0, true);
  Add(2, 4, 1, true);
  Add(3, 8, 2, true);
  EXPECT_EQ(Named().size(), 3u);
}

TEST_F(RingRuns, PartsOfOneJobStayTogether) {
  Add(1, 4, 0, false);
  Add(2, 4, 5, false);
  rings_[0].snapshot.comms.push_back(Comm(1, 7, 0, 2));
  rings_[6].snapshot.comms.push_back(Comm(1, 7, 1, 2));
  Add(3, 2, 10, false);  // there is no sign that this is another job
  EXPECT_THAT(Named(), ElementsAre(std::pair("job", 10)));
}

TEST_F(RingRuns, JobsWithANameAreNotSplit) {
  Add(1, 4, 0, true);
  Add(2, 4, 3600, true);
  for (RingInput& input : rings_) input.snapshot.process.job = "train";
  EXPECT_THAT(Named(), ElementsAre(std::pair("train", 8)));
}

TEST(RingLoader, AProcessWithSeveralDevicesBecomesSeveralRanks) {
  RingInput input = Ring(-1, -1, 700);
  auto evidence = std::make_shared<ProcessEvidence>();
  for (int tid : {700, 801, 802, 803}) {
    ThreadStack* stack = evidence->add_threads();
    stack->set_inner_tid(tid);
    StackFrame* frame = stack->add_frames();
    frame->set_kind(StackFrame::NATIVE);
    frame->set_function(absl::StrCat("in_thread_", tid));
  }
  input.process.evidence = evidence;
  input.process.stack = {"in_thread_700"};
  for (int device = 0; device < 3; ++device) {
    ring::CommSnapshot comm = Comm(static_cast<uint32_t>(device), 0x99, device, 3, 1);
    comm.device = device;
    comm.origin = CallKind::kCommInitAll;
    input.snapshot.comms.push_back(comm);
    ring::OpSnapshot op = Call(static_cast<uint32_t>(device), 1, OpStage::kLaunched, 0);
    op.thread = static_cast<uint32_t>(device);
    input.snapshot.ops.push_back(op);
    ring::ThreadSnapshot thread;
    thread.index = static_cast<uint32_t>(device);
    thread.tid = 801 + device;
    thread.comm = static_cast<uint32_t>(device);
    thread.call = CallKind::kAllReduce;
    thread.since_ns = 5;
    if (device == 0) input.snapshot.threads.clear();
    input.snapshot.threads.push_back(thread);
  }
  const Bundle bundle = BundleFromRings({input});
  ASSERT_EQ(bundle.ranks.size(), 3u);
  EXPECT_THAT(bundle.comms[0].members, ElementsAre(0, 1, 2));
  for (int rank = 0; rank < 3; ++rank) {
    const Rank& r = bundle.ranks[static_cast<size_t>(rank)];
    EXPECT_EQ(r.gpu_index, rank);
    ASSERT_EQ(r.process.stack.size(), 1u);
    EXPECT_THAT(r.process.stack[0], HasSubstr(absl::StrCat("in_thread_", 801 + rank)));
    ASSERT_EQ(r.ops.size(), 1u);
    EXPECT_EQ(r.ops[0].membership, 0u);
    ASSERT_EQ(r.threads.size(), 3u);
    for (int thread = 0; thread < 3; ++thread) {
      EXPECT_EQ(r.threads[static_cast<size_t>(thread)].call == CallKind::kAllReduce, thread == rank);
    }
  }
}

// One thread drives both devices and waits for device 0. The operation on device 0 needs device 1, so the rank of
// device 1 must not count as waiting.
TEST(RingLoader, AWaitForOneDeviceIsNotAWaitOfTheOtherRanks) {
  for (const bool known : {true, false}) {
    RingInput ring = Ring(0, 1);
    ring.snapshot.process.gpu_marks = ring::GpuMarks::kFull;
    for (int32_t i = 0; i < 2; ++i) {
      ring.snapshot.comms.push_back(Comm(static_cast<uint32_t>(i), 7, i, 2, i == 0 ? 3 : 2));
      ring.snapshot.comms.back().device = i;
      ring.snapshot.streams.push_back(Stream(i == 0 ? 3 : 2, i == 0 ? 3 : 2, 2));
      ring.snapshot.streams.back().index = static_cast<uint32_t>(i);
      ring.snapshot.streams.back().device = i;
    }
    ring::ThreadSnapshot& thread = ring.snapshot.threads[0];
    thread.wait = known ? CallKind::kStreamSynchronize : CallKind::kDeviceSynchronize;
    thread.wait_stream = known ? 0 : UINT32_MAX;
    thread.wait_since_ns = 1000;
    for (uint32_t comm = 0; comm < 2; ++comm) {
      ring.snapshot.ops.push_back(Call(comm, 2, OpStage::kLaunched, 2));
      ring.snapshot.ops.back().stream = comm;
    }
    const Bundle bundle = BundleFromRings({ring});
    ASSERT_EQ(bundle.ranks.size(), 2u);
    EXPECT_EQ(bundle.ranks[0].gpu_index, 0);
    EXPECT_EQ(bundle.ranks[1].gpu_index, 1);
    EXPECT_EQ(bundle.ranks[0].threads.at(0).wait, thread.wait);
    EXPECT_EQ(bundle.ranks[1].threads.at(0).wait, CallKind::kNone);
    EXPECT_FALSE(bundle.ranks[0].threads.at(0).waits_elsewhere);
    EXPECT_TRUE(bundle.ranks[1].threads.at(0).waits_elsewhere);
  }
}

TEST(RingLoader, RecentOperationsFillOnlyGapsInTheRing) {
  RingInput input = Ring(0, 2);
  input.snapshot.comms = {Comm(0, 0x1, 0, 2, 9)};
  input.snapshot.ops = {Call(0, 8, OpStage::kLaunched, 0), Call(0, 9, OpStage::kEntered, 0)};
  for (uint64_t seq : {7, 8, 9}) {
    input.snapshot.recent.push_back(Call(0, seq, OpStage::kLaunched, 0));
    input.snapshot.recent.back().thread = UINT32_MAX;
  }
  const Bundle bundle = BundleFromRings({input});
  ASSERT_EQ(bundle.ranks[0].ops.size(), 3u);
  EXPECT_TRUE(bundle.ranks[0].ops[0].recent_only);
  EXPECT_EQ(bundle.ranks[0].ops[0].seq, 7);
  EXPECT_EQ(bundle.ranks[0].ops[0].thread, kNoIndex);
  EXPECT_FALSE(bundle.ranks[0].ops[2].recent_only);
  EXPECT_EQ(bundle.ranks[0].ops[2].state, OpState::kEntered);
}

TEST(RingLoader, OnlyTheNewestGenerationIsKept) {
  std::vector<RingInput> rings = {Ring(0, 2), Ring(1, 2), Ring(0, 2, 77)};
  rings[1].snapshot.process.restart_count = 2;
  rings[2].snapshot.process.restart_count = 2;
  for (RingInput& ring : rings) ring.snapshot.comms = {Comm(0, 0x1, ring.snapshot.process.rank, 2)};
  const Bundle bundle = BundleFromRings(rings);
  ASSERT_EQ(bundle.ranks.size(), 2u);
  EXPECT_EQ(bundle.ranks[0].pid, 77);
  ASSERT_EQ(bundle.problems.size(), 1u);
  EXPECT_TRUE(bundle.problems[0].note);
  EXPECT_THAT(bundle.problems[0].text, HasSubstr("restart 0"));
}

TEST(RingLoader, TheProcessThatGotFurtherRepresentsItsRank) {
  RingInput early = Ring(0, 1, 10), late = Ring(0, 1, 20);
  early.snapshot.comms = {Comm(0, 0x1, 0, 1, 3)};
  late.snapshot.comms = {Comm(0, 0x2, 0, 1, 300)};
  for (const auto& rings : {std::vector<RingInput>{early, late}, std::vector<RingInput>{late, early}}) {
    const Bundle bundle = BundleFromRings(rings);
    ASSERT_EQ(bundle.ranks.size(), 1u);
    EXPECT_EQ(bundle.ranks[0].pid, 20);
    ASSERT_EQ(bundle.problems.size(), 1u);
    EXPECT_EQ(bundle.problems[0].path, "/rings/10.ring");
  }
}

TEST(RingLoader, AProcessThatOnlyQueriedNcclIsNotARank) {
  RingInput launcher = Ring(-1, -1, 5);
  RingInput rank = Ring(0, 1);
  rank.snapshot.comms = {Comm(0, 0x1, 0, 1)};
  const Bundle bundle = BundleFromRings({launcher, rank});
  ASSERT_EQ(bundle.ranks.size(), 1u);
  ASSERT_EQ(bundle.problems.size(), 1u);
  EXPECT_TRUE(bundle.problems[0].note);
}

TEST(RingLoader, ImpossibleNumbersAreRefusedAndReported) {
  std::vector<RingInput> rings;
  for (int rank = 0; rank < 3; ++rank) {
    rings.push_back(Ring(rank, 3));
    rings.back().snapshot.comms = {Comm(0, 0x1, rank, 3, 5)};
  }
  rings[2].snapshot.comms = {Comm(0, 0x1, 9, 3, 5), Comm(1, 0x2, 0, INT32_MAX, UINT64_MAX),
                             Comm(2, 0x3, INT32_MAX, 4, 1)};
  ring::OpSnapshot stray = Call(55, 1, static_cast<OpStage>(99), 1);
  stray.stream = stray.thread = 1234567;
  rings[2].snapshot.ops = {stray};
  rings[2].snapshot.process.host = "bad\xff\x01host";
  rings.push_back(Ring(INT32_MAX, 3, 99));
  const Bundle bundle = BundleFromRings(rings);
  ASSERT_EQ(bundle.ranks.size(), 3u);
  EXPECT_EQ(bundle.ranks_expected, 3);
  const Rank& bad = bundle.ranks[2];
  EXPECT_EQ(bad.host, "bad?\x01host");
  EXPECT_EQ(bad.memberships[0].member_rank, -1);
  EXPECT_EQ(bad.memberships[1].issued, kUnknown);
  EXPECT_EQ(bad.ops[0].membership, kNoIndex);
  EXPECT_EQ(bad.ops[0].stream, kNoIndex);
  EXPECT_EQ(bad.ops[0].state, OpState::kUnknown);
  EXPECT_THAT(bundle.comms[0].members, ElementsAre(0, 1, -1));
  size_t entries = 0;
  for (const Communicator& comm : bundle.comms) entries += comm.members.size();
  EXPECT_LE(entries, 16u);
  EXPECT_GE(bundle.problems.size(), 3u);
}

TEST(RingLoader, DamageOfOneRingGivesAFewLines) {
  RingInput input = Ring(0, 1);
  input.snapshot.comms = {Comm(0, 0x1, 0, 1)};
  for (int i = 0; i < 100; ++i) input.snapshot.problems.push_back(absl::StrCat("torn slot, at offset ", i));
  const Bundle bundle = BundleFromRings({input});
  ASSERT_EQ(bundle.problems.size(), 5u);
  EXPECT_EQ(bundle.problems[0].text, "96 more damaged parts");
  EXPECT_TRUE(bundle.ranks[0].damaged);
}

TEST(RingLoader, MemberListsShareABoundedSpace) {
  RingInput input = Ring(0, 2);
  for (uint32_t i = 0; i < 200; ++i) input.snapshot.comms.push_back(Comm(i, 1000 + i, 0, kMaxMembers));
  RingInput other = Ring(1, 2);
  input.snapshot.comms.push_back(Comm(300, 7, 0, 2));
  other.snapshot.comms = {Comm(0, 7, 1, 2)};
  const Bundle bundle = BundleFromRings({input, other});
  int64_t entries = 0;
  for (const Communicator& comm : bundle.comms) entries += static_cast<int64_t>(comm.members.size());
  EXPECT_LE(entries, kMaxMemberEntries);
  EXPECT_THAT(bundle.comms[0].members, ElementsAre(0, 1));
}

TEST(RingLoader, TheOrderOfFilesDoesNotMatter) {
  std::vector<RingInput> rings;
  for (int i = 0; i < 5; ++i) {
    rings.push_back(Ring(i < 3 ? i : -1, 5, 100 + i));
    rings.back().snapshot.comms = {Comm(0, i < 3 ? 0x1 : 0x2, i < 3 ? i : 0, 3)};
  }
  const Bundle forward = BundleFromRings(rings);
  std::reverse(rings.begin(), rings.end());
  const Bundle backward = BundleFromRings(rings);
  ASSERT_EQ(forward.ranks.size(), backward.ranks.size());
  for (size_t i = 0; i < forward.ranks.size(); ++i) {
    EXPECT_EQ(forward.ranks[i].pid, backward.ranks[i].pid);
    EXPECT_EQ(forward.ranks[i].rank, backward.ranks[i].rank);
  }
  ASSERT_EQ(forward.problems.size(), backward.problems.size());
  for (size_t i = 0; i < forward.problems.size(); ++i) EXPECT_EQ(forward.problems[i].text, backward.problems[i].text);
}

// exec keeps PID and start time, so the old and new program's rings belong to one process.
TEST(RingLoader, TheRingFromBeforeAnExecIsOmitted) {
  for (const bool old_first : {true, false}) {
    RingInput old = Ring(0, 1, 4711), fresh = Ring(0, 1, 4711);
    old.path = "/rings/old.ring";
    old.snapshot.process.state = ring::RecorderState::kReplaced;
    old.snapshot.process.stop_reason = "the process became another program";
    old.snapshot.comms = {Comm(0, 0xabc, 0, 1, 900)};
    for (uint64_t i = 1; i < 20; ++i) old.snapshot.ops.push_back(Call(0, i, OpStage::kLaunched, 0));
    fresh.path = "/rings/fresh.ring";
    fresh.snapshot.process.state = ring::RecorderState::kRecording;
    fresh.snapshot.comms = {Comm(0, 0xdef, 0, 1, 1)};
    std::vector<RingInput> inputs = {old_first ? old : fresh, old_first ? fresh : old};
    const Bundle bundle = BundleFromRings(inputs);
    ASSERT_EQ(bundle.ranks.size(), 1u);
    EXPECT_EQ(bundle.ranks[0].path, "/rings/fresh.ring");
  }
}

}  // namespace
}  // namespace lockstep
