// Tests core and reader together, without preloading: calls are made on the core and read back from the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "recorder/base/identity.h"
#include "recorder/base/loaded.h"
#include "recorder/core/budget.h"
#include "recorder/core/ops.h"
#include "recorder/core/slots.h"
#include "recorder/ring/reader.h"

namespace lockstep::recorder {
namespace {

using ring::CallKind;
using ring::CommSnapshot;
using ring::OpSnapshot;
using ring::OpStage;
using ring::Snapshot;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const void* Pointer(uintptr_t value) { return reinterpret_cast<const void*>(value); }
void* Handle(uintptr_t value) { return reinterpret_cast<void*>(value); }

class CoreTest : public ::testing::Test {
 protected:
  void Begin(uint64_t bytes) {
    bytes_ = bytes;
    fd_ = memfd_create("ring", MFD_CLOEXEC);
    ASSERT_GE(fd_, 0);
    ASSERT_EQ(ftruncate(fd_, static_cast<off_t>(bytes)), 0);
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    ASSERT_NE(base, MAP_FAILED);
    base_ = static_cast<uint8_t*>(base);
    StartOn(base_, bytes, GpuMode::kOff);
    SetBudget({});  // a sanitizer makes calls slower than any budget
    t_local.group_depth = 0;
  }
  void TearDown() override {
    Stop(ring::RecorderState::kStopped, "test over");
    if (base_ != nullptr) munmap(base_, bytes_);
    if (fd_ >= 0) close(fd_);
  }
  // Adds a communicator, as an init call does.
  CommLocal* MakeComm(uintptr_t handle, int rank, int size) {
    CommPlan plan;
    plan.origin = CallKind::kCommInitRank;
    plan.id = handle * 31;
    plan.member_rank = rank;
    plan.size = size;
    plan.device = 0;
    plan.ordinal = 1;
    CommLocal* comm = NewComm(plan);
    if (comm == nullptr) return nullptr;
    BindHandle(comm, Handle(handle));
    CommIsReady(comm);
    return comm;
  }
  static Op Collective(uintptr_t comm, uint64_t count) {
    return {CallKind::kAllReduce, 7, 0, -1, count, Pointer(0xa000), Pointer(0xb000), Handle(comm), Handle(0x5000),
            Pointer(0x1234)};
  }
  static Op P2p(CallKind kind, uintptr_t comm, int peer, uint64_t count) {
    return {kind, 9, -1, peer, count, Pointer(0xa000), Pointer(0xb000), Handle(comm), Handle(0x6000), Pointer(0x1234)};
  }
  static void Do(const Op& op, int result = 0) {
    OpInFlight flight;
    ASSERT_TRUE(ShouldRecord(nullptr));
    ASSERT_TRUE(BeginOp(op, &flight));
    EndOp(&flight, result);
  }
  static void GroupStart() {
    if (t_local.group_depth++ == 0) NoteGroupStart(Pointer(0x4321));
    NoteGroupDepth();
  }
  static void GroupEnd(int result, bool simulated = false) {
    if (t_local.group_depth == 1) {
      InsideMark mark;
      ASSERT_TRUE(BeginGroupEnd(simulated ? CallKind::kGroupSimulateEnd : CallKind::kGroupEnd, &mark));
    }
    if (--t_local.group_depth == 0) EndGroup(result, simulated);
    NoteGroupDepth();
  }
  Snapshot Read(bool digest = false) {
    Snapshot snapshot;
    std::string error;
    EXPECT_TRUE(ring::ReadRing(fd_, {digest}, &snapshot, &error)) << error;
    return snapshot;
  }

  int fd_ = -1;
  uint8_t* base_ = nullptr;
  uint64_t bytes_ = 0;
};

TEST_F(CoreTest, ACollectiveIsReadBackAsItWasPassed) {
  Begin(1 << 20);
  MakeComm(0x100, 3, 8);
  Do({CallKind::kReduce, 9, 2, 5, 4096, Pointer(0xa000), Pointer(0xb000), Handle(0x100), Handle(0x5000), nullptr});
  const Snapshot snapshot = Read();
  EXPECT_THAT(snapshot.problems, IsEmpty());
  ASSERT_THAT(snapshot.ops, SizeIs(1));
  const OpSnapshot& op = snapshot.ops[0];
  EXPECT_EQ(op.kind, CallKind::kReduce);
  EXPECT_EQ(op.stage, OpStage::kLaunched);
  EXPECT_EQ(op.datatype, 9);
  EXPECT_EQ(op.reduction, 2);
  EXPECT_EQ(op.root_or_peer, 5);
  EXPECT_EQ(op.count, 4096u);
  EXPECT_EQ(op.seq, 1u);
  EXPECT_EQ(op.comm, 0u);
  EXPECT_EQ(op.stream, 0u);
  EXPECT_EQ(op.send_address, 0xa000u);
  EXPECT_EQ(op.recv_address, 0xb000u);
  EXPECT_GT(op.enter_ns, 0);
  EXPECT_GE(op.return_ns, op.enter_ns);
  ASSERT_THAT(snapshot.comms, SizeIs(1));
  EXPECT_EQ(snapshot.comms[0].issued_seq, 1u);
  EXPECT_EQ(snapshot.comms[0].launched_seq, 1u);
  EXPECT_EQ(snapshot.comms[0].member_rank, 3);
  EXPECT_EQ(snapshot.comms[0].size, 8);
  EXPECT_NE(snapshot.comms[0].signature_hash, 0u);
  EXPECT_EQ(snapshot.comms[0].lost_records, 0u);
  ASSERT_THAT(snapshot.streams, SizeIs(1));
  EXPECT_EQ(snapshot.streams[0].handle, 0x5000u);
  EXPECT_FALSE(snapshot.streams[0].marked);
}

TEST_F(CoreTest, ACallInProgressShowsInTheThreadsCell) {
  Begin(1 << 20);
  MakeComm(0x100, 0, 2);
  OpInFlight flight;
  ASSERT_TRUE(ShouldRecord(nullptr));
  ASSERT_TRUE(BeginOp(Collective(0x100, 7), &flight));
  Snapshot snapshot = Read(true);
  ASSERT_THAT(snapshot.threads, SizeIs(1));
  EXPECT_EQ(snapshot.threads[0].call, CallKind::kAllReduce);
  EXPECT_EQ(snapshot.threads[0].seq, 1u);
  EXPECT_EQ(snapshot.threads[0].comm, 0u);
  EXPECT_GT(snapshot.threads[0].since_ns, 0);
  EXPECT_EQ(snapshot.comms[0].issued_seq, 1u) << "progress is visible before NCCL is entered";
  EXPECT_EQ(snapshot.comms[0].launched_seq, 0u);
  EXPECT_EQ(Read().ops.at(0).stage, OpStage::kEntered);
  EndOp(&flight, 0);
  snapshot = Read(true);
  EXPECT_EQ(snapshot.threads[0].call, CallKind::kNone);
  EXPECT_EQ(snapshot.comms[0].launched_seq, 1u);
}

TEST_F(CoreTest, ARefusedCallHasNoSequenceNumber) {
  Begin(1 << 20);
  MakeComm(0x100, 0, 2);
  for (int i = 0; i < 15; ++i) Do(Collective(0x100, 10));
  const Snapshot before = Read();
  Do(Collective(0x100, 99), 4);
  const Snapshot after = Read();
  EXPECT_EQ(after.comms[0].issued_seq, 15u);
  EXPECT_EQ(after.comms[0].signature_hash, before.comms[0].signature_hash);
  EXPECT_THAT(after.comms[0].checkpoints, IsEmpty());
  EXPECT_EQ(after.ops.back().stage, OpStage::kFailed);
  EXPECT_EQ(after.ops.back().result, 4);
  Do(Collective(0x100, 10));
  EXPECT_THAT(Read().comms[0].checkpoints, SizeIs(1));
  Do(P2p(CallKind::kSend, 0x100, 1, 5), 4);
  Do(P2p(CallKind::kSend, 0x100, 1, 5), 7);
  const Snapshot last = Read();
  EXPECT_EQ(last.comms[0].peers.at(0).sends, 1u);
  EXPECT_EQ(last.ops.back().seq, 1u);
  EXPECT_EQ(last.ops.back().stage, OpStage::kLaunched) << "ncclInProgress is not an error";
}

TEST_F(CoreTest, HashesAgreeAsLongAsOperationsDo) {
  Begin(1 << 20);
  MakeComm(0x100, 0, 2);
  MakeComm(0x200, 1, 2);
  MakeComm(0x300, 1, 2);
  for (int i = 0; i < 160; ++i) {
    Do(Collective(0x100, 1000 + static_cast<uint64_t>(i)));
    Do(Collective(0x200, 1000 + static_cast<uint64_t>(i)));
    Do(Collective(0x300, i == 100 ? 1 : 1000 + static_cast<uint64_t>(i)));
  }
  const Snapshot snapshot = Read();
  ASSERT_THAT(snapshot.comms, SizeIs(3));
  const auto& a = snapshot.comms[0].checkpoints;
  const auto& b = snapshot.comms[1].checkpoints;
  const auto& c = snapshot.comms[2].checkpoints;
  ASSERT_THAT(a, SizeIs(8));
  EXPECT_EQ(a.front().seq, 48u);
  EXPECT_EQ(a.back().seq, 160u);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(a[i].hash, b[i].hash);
    EXPECT_EQ(a[i].hash == c[i].hash, a[i].seq <= 100) << "at " << a[i].seq;
  }
}

TEST_F(CoreTest, AWrappedRingKeepsTheNewestAndCountsLossesPerCommunicator) {
  Begin(512 << 10);
  MakeComm(0x100, 0, 2);
  MakeComm(0x200, 0, 2);
  Do(Collective(0x200, 1));
  for (uint64_t i = 0; i < 2000; ++i) Do(Collective(0x100, i));
  const Snapshot snapshot = Read();
  EXPECT_THAT(snapshot.problems, IsEmpty());
  ASSERT_THAT(snapshot.ops, SizeIs(512));
  for (size_t i = 0; i < 512; ++i) {
    EXPECT_EQ(snapshot.ops[i].seq, 2000 - 512 + i + 1);
    EXPECT_EQ(snapshot.ops[i].index, 2001 - 512 + i);
  }
  EXPECT_EQ(snapshot.comms[0].lost_records, 2000u - 512u);
  EXPECT_EQ(snapshot.comms[1].lost_records, 1u);
  EXPECT_EQ(snapshot.threads[0].calls, 2001u);
  EXPECT_EQ(snapshot.threads[0].overwritten, 2001u - 512u);
  // The quiet communicator's only operation is still in its table entry, outside the ring.
  bool found = false;
  for (const OpSnapshot& op : snapshot.recent) found |= op.comm == 1 && op.seq == 1;
  EXPECT_TRUE(found);
}

TEST_F(CoreTest, ASixtyFourWayAllToAllIsPacked) {
  Begin(1 << 20);
  MakeComm(0x100, 0, 64);
  Do(Collective(0x100, 5));
  const uint64_t begun = g_tables.threads[0].begun;
  GroupStart();
  for (int peer = 0; peer < 64; ++peer) {
    Do(P2p(CallKind::kSend, 0x100, peer, 100 + static_cast<uint64_t>(peer)));
    Do(P2p(CallKind::kRecv, 0x100, peer, 200 + static_cast<uint64_t>(peer)));
  }
  EXPECT_EQ(Read().ops.back().stage, OpStage::kQueued);
  GroupEnd(0);
  EXPECT_EQ(g_tables.threads[0].begun - begun, 1u + 128u / 4u);
  const Snapshot snapshot = Read();
  ASSERT_THAT(snapshot.ops, SizeIs(1 + 1 + 128));
  EXPECT_EQ(snapshot.ops[1].kind, CallKind::kGroup);
  EXPECT_EQ(snapshot.ops[1].count, 128u);
  for (int i = 0; i < 128; ++i) {
    const OpSnapshot& op = snapshot.ops[static_cast<size_t>(2 + i)];
    EXPECT_EQ(op.kind, i % 2 == 0 ? CallKind::kSend : CallKind::kRecv);
    EXPECT_EQ(op.root_or_peer, i / 2);
    EXPECT_EQ(op.count, static_cast<uint64_t>((i % 2 == 0 ? 100 : 200) + i / 2));
    EXPECT_EQ(op.datatype, 9);
    EXPECT_EQ(op.seq, 1u);
    EXPECT_EQ(op.group, 1u);
    EXPECT_EQ(op.index, static_cast<uint64_t>(2 + i));
    EXPECT_EQ(op.stage, OpStage::kLaunched);
    EXPECT_EQ(i % 2 == 0 ? op.send_address : op.recv_address, i % 2 == 0 ? 0xa000u : 0xb000u);
  }
  EXPECT_THAT(snapshot.comms[0].peers, SizeIs(64));
  EXPECT_EQ(snapshot.comms[0].lost_records, 0u);
}

TEST_F(CoreTest, AFailedGroupIsTakenBackCompletely) {
  Begin(1 << 20);
  MakeComm(0x100, 0, 4);
  Do(Collective(0x100, 5));
  const uint64_t hash = Read().comms[0].signature_hash;
  GroupStart();
  Do(Collective(0x100, 6));
  Do(P2p(CallKind::kSend, 0x100, 2, 6));
  EXPECT_EQ(Read().comms[0].issued_seq, 2u);
  GroupEnd(5);
  const Snapshot snapshot = Read();
  EXPECT_EQ(snapshot.comms[0].issued_seq, 1u);
  EXPECT_EQ(snapshot.comms[0].launched_seq, 1u);
  EXPECT_EQ(snapshot.comms[0].signature_hash, hash);
  EXPECT_EQ(snapshot.comms[0].peers.at(0).sends, 0u);
  ASSERT_THAT(snapshot.ops, SizeIs(4));
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(snapshot.ops[i].stage, OpStage::kFailed);
  EXPECT_EQ(snapshot.ops[1].result, 5);
}

// A send that is too large to be packed has its own record, and so has every send of a thread without a ring.
TEST_F(CoreTest, AFailedGroupTakesBackUnpackedRecordsToo) {
  for (const bool shared : {false, true}) {
    Begin(1 << 20);
    if (shared) g.rings_used = g.map.capacities.rings;
    MakeComm(0x100, 0, 4);
    Do(P2p(CallKind::kSend, 0x100, 2, 6));
    const uint64_t large = uint64_t{1} << 50;
    GroupStart();
    Do(P2p(CallKind::kSend, 0x100, 2, shared ? 6 : large));
    Do(P2p(CallKind::kRecv, 0x100, 3, large));
    Do(P2p(CallKind::kRecv, 0x100, 3, large), 4);
    GroupEnd(5);
    const Snapshot snapshot = Read();
    ASSERT_THAT(snapshot.comms.at(0).peers, SizeIs(2));
    EXPECT_EQ(snapshot.comms[0].peers[0].sends, 1u) << shared;
    EXPECT_EQ(snapshot.comms[0].peers[1].recvs, 0u) << shared;
    EXPECT_EQ(snapshot.comms[0].lost_records, 0u) << shared;
    EXPECT_EQ(g.map.comms[0].p2p_issued, 1u) << shared;
    TearDown();
    base_ = nullptr;
    fd_ = -1;
  }
}

TEST_F(CoreTest, AFailedOperationInAGroupStaysFailedOnTheSharedRing) {
  Begin(1 << 20);
  g.rings_used = g.map.capacities.rings;
  MakeComm(0x100, 0, 4);
  GroupStart();
  Do(Collective(0x100, 1));
  Do(Collective(0x100, 2), 4);
  GroupEnd(0);
  const Snapshot snapshot = Read();
  ASSERT_THAT(snapshot.ops, SizeIs(3));
  EXPECT_EQ(snapshot.ops[1].stage, OpStage::kLaunched);
  EXPECT_EQ(snapshot.ops[2].stage, OpStage::kFailed);
  EXPECT_EQ(snapshot.ops[2].result, 4);
}

TEST_F(CoreTest, AnInvalidHandleLeavesTheEntryFree) {
  Begin(512 << 10);  // 32 communicators
  for (uintptr_t i = 1; i <= 100; ++i) Do(Collective(0x10000 * i, 1), 4);
  EXPECT_EQ(Read().records_lost, 0u);
  ASSERT_NE(MakeComm(0x77, 0, 2), nullptr);
}

TEST_F(CoreTest, AThreadThatEndsInsideAGroupFreesItsCommunicators) {
  Begin(512 << 10);
  MakeComm(0x100, 0, 4);
  std::thread([] {
    GroupStart();
    Do(Collective(0x100, 1));
  }).join();
  EXPECT_EQ(Read().threads.back().group_depth, 1u);
  // When the table is full, another thread gets the ended thread's cell.
  g.threads_used = g.map.capacities.threads;
  std::thread([] {
    GroupStart();
    Do(Collective(0x100, 2));
    GroupEnd(0);
  }).join();
  const Snapshot snapshot = Read();
  EXPECT_EQ(snapshot.comms[0].issued_seq, 2u);
  EXPECT_EQ(snapshot.comms[0].launched_seq, 2u);
  EXPECT_EQ(snapshot.ops.back().stage, OpStage::kLaunched);
}

// The communicator's thread and a watchdog change its entry at the same time. Afterwards the guard must be even.
TEST_F(CoreTest, TwoThreadsThatChangeACommunicatorLeaveItReadable) {
  Begin(1 << 20);
  CommLocal* comm = MakeComm(0x100, 0, 4);
  std::barrier together(2);
  auto change = [&] {
    together.arrive_and_wait();
    for (int i = 0; i < 200000; ++i) NoteAsyncError(comm, i);
  };
  std::thread other(change);
  change();
  other.join();
  EXPECT_EQ(comm->entry->guard % 2, 0u);
  EXPECT_THAT(Read().problems, IsEmpty());
}

TEST_F(CoreTest, ASimulatedGroupIsNeverLaunched) {
  Begin(1 << 20);
  MakeComm(0x100, 0, 4);
  GroupStart();
  Do(Collective(0x100, 6));
  GroupEnd(0, true);
  const Snapshot snapshot = Read();
  EXPECT_EQ(snapshot.ops.back().stage, OpStage::kSimulated);
  EXPECT_EQ(snapshot.comms[0].issued_seq, 0u);
}

TEST_F(CoreTest, NestedGroupsLaunchAtTheOutermostEnd) {
  Begin(1 << 20);
  MakeComm(0x100, 0, 4);
  MakeComm(0x200, 0, 4);
  GroupStart();
  Do(Collective(0x100, 1));
  GroupStart();
  Do(Collective(0x200, 2));
  Snapshot snapshot = Read();
  EXPECT_EQ(snapshot.threads[0].group_depth, 2u);
  EXPECT_GT(snapshot.threads[0].group_since_ns, 0);
  GroupEnd(0);
  snapshot = Read();
  EXPECT_EQ(snapshot.ops.back().stage, OpStage::kQueued);
  EXPECT_EQ(snapshot.comms[1].launched_seq, 0u);
  GroupEnd(0);
  snapshot = Read();
  EXPECT_EQ(snapshot.ops.back().stage, OpStage::kLaunched);
  EXPECT_EQ(snapshot.comms[0].launched_seq, 1u);
  EXPECT_EQ(snapshot.comms[1].launched_seq, 1u);
  EXPECT_EQ(snapshot.threads[0].group_depth, 0u);
}

TEST_F(CoreTest, ThreadsWithoutARingShareOneAndNoRecordIsTorn) {
  Begin(512 << 10);  // four rings
  constexpr int kThreads = 8, kCalls = 100000;
  for (int t = 0; t < kThreads; ++t) MakeComm(0x100 * static_cast<uintptr_t>(t + 1), t, kThreads);
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  // A read during a write must be consistent: the count identifies the call and its thread.
  std::thread reader([&] {
    while (!stop.load()) {
      const Snapshot snapshot = Read();
      for (const OpSnapshot& op : snapshot.ops) {
        if (op.kind == CallKind::kAllReduce && (op.count % 1000000 + 1 != op.seq || op.count / 1000000 != op.comm))
          ++torn;
      }
      for (const OpSnapshot& op : snapshot.recent) {
        if (op.count % 1000000 + 1 != op.seq || op.count / 1000000 != op.comm) ++torn;
      }
    }
  });
  std::barrier together(kThreads);
  std::vector<std::thread> writers;
  for (int t = 0; t < kThreads; ++t) {
    writers.emplace_back([&, t] {
      together.arrive_and_wait();
      for (int i = 0; i < kCalls; ++i) {
        Do(Collective(0x100 * static_cast<uintptr_t>(t + 1),
                      static_cast<uint64_t>(t) * 1000000 + static_cast<uint64_t>(i)));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  stop = true;
  reader.join();
  EXPECT_EQ(torn.load(), 0);
  const Snapshot snapshot = Read();
  EXPECT_THAT(snapshot.problems, IsEmpty());
  EXPECT_THAT(snapshot.threads, SizeIs(kThreads + 1)) << "the writers, and the thread that created the communicators";
  ASSERT_THAT(snapshot.comms, SizeIs(kThreads));
  std::set<uint32_t> seen;
  uint64_t kept = 0;
  for (const OpSnapshot& op : snapshot.ops) {
    seen.insert(op.thread);
    ++kept;
  }
  uint64_t lost = 0;
  for (const CommSnapshot& comm : snapshot.comms) {
    EXPECT_EQ(comm.issued_seq, static_cast<uint64_t>(kCalls));
    EXPECT_EQ(comm.launched_seq, static_cast<uint64_t>(kCalls));
    lost += comm.lost_records;
  }
  EXPECT_EQ(kept + lost, static_cast<uint64_t>(kThreads) * kCalls);
  EXPECT_GE(seen.size(), 5u) << "four threads with their own rings, and the shared ring";
}

// Another process reads cells, progress and records during writes. The values must belong together.
TEST_F(CoreTest, ValuesReadDuringAWriteBelongTogether) {
  Begin(1 << 20);
  // Two communicators used in turn: a sequence number identifies the communicator, a count of the first identifies the
  // call.
  MakeComm(0x100, 0, 4);
  MakeComm(0x200, 0, 4);
  constexpr uint64_t kCalls = 300000, kAhead = 400000;
  for (uint64_t i = 0; i < kAhead; ++i) Do(Collective(0x200, i));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t i = 1; i <= kCalls && !stop.load(); ++i) {
      Do(Collective(0x100, i));
      Do(P2p(CallKind::kSend, 0x100, 2, i));
      Do(Collective(0x200, i + 1));
      Do(Collective(0x200, i + 2));
    }
    stop = true;
  });
  uint64_t looks = 0, last[2] = {};
  std::vector<std::string> wrong;
  auto expect = [&](bool good, const std::string& what) {
    if (!good && wrong.size() < 10) wrong.push_back(what);
  };
  while (!stop.load()) {
    const Snapshot snapshot = Read(++looks % 8 != 0);
    for (const CommSnapshot& comm : snapshot.comms) {
      expect(comm.issued_seq >= last[comm.index], "progress went back");
      expect(comm.launched_seq <= comm.issued_seq, "launched before it was issued");
      last[comm.index] = comm.issued_seq;
      for (const ring::HashCheckpoint& checkpoint : comm.checkpoints) {
        expect(checkpoint.seq <= comm.issued_seq && checkpoint.seq % ring::kCheckpointEvery == 0, "checkpoint");
      }
    }
    for (const ring::ThreadSnapshot& thread : snapshot.threads) {
      if (thread.call == CallKind::kNone) continue;
      expect((thread.seq > kAhead) == (thread.comm == 1), "thread cell is torn");
    }
    for (const OpSnapshot& op : snapshot.recent) {
      if (op.comm == 0) expect(op.seq == op.count, "recent operation is torn");
      if (op.comm == 0) expect((op.kind == CallKind::kSend) == (op.root_or_peer == 2), "recent peer is torn");
    }
    for (const OpSnapshot& op : snapshot.ops) {
      if (op.comm == 0) expect(op.seq == op.count, "record is torn");
    }
  }
  writer.join();
  EXPECT_THAT(wrong, IsEmpty());
  EXPECT_GT(looks, 0u);
}

TEST_F(CoreTest, AReusedHandleIsANewGeneration) {
  Begin(1 << 20);
  CommLocal* first = MakeComm(0x100, 0, 2);
  Do(Collective(0x100, 1));
  CommEnded(first, ring::CommState::kDestroyed);
  MakeComm(0x100, 1, 4);
  Do(Collective(0x100, 2));
  const Snapshot snapshot = Read();
  ASSERT_THAT(snapshot.comms, SizeIs(2));
  EXPECT_EQ(snapshot.comms[0].generation, 0u);
  EXPECT_EQ(snapshot.comms[0].state, ring::CommState::kDestroyed);
  EXPECT_EQ(snapshot.comms[0].issued_seq, 1u);
  EXPECT_EQ(snapshot.comms[1].generation, 1u);
  EXPECT_EQ(snapshot.comms[1].issued_seq, 1u);
  EXPECT_EQ(snapshot.ops.at(0).comm, 0u);
  EXPECT_EQ(snapshot.ops.at(1).comm, 1u);
}

TEST_F(CoreTest, AFullTableReusesEndedEntriesAndCountsTheRest) {
  Begin(512 << 10);  // 32 communicators
  for (uintptr_t i = 1; i <= 32; ++i) {
    ASSERT_NE(MakeComm(i * 0x100, 0, 2), nullptr);
    Do(Collective(i * 0x100, i));
  }
  EXPECT_EQ(MakeComm(0x9900, 0, 2), nullptr);
  EXPECT_EQ(Read().records_lost, 1u);
  CommEnded(&g_tables.comms[4], ring::CommState::kAborted);
  ASSERT_NE(MakeComm(0x9900, 0, 2), nullptr);
  const Snapshot snapshot = Read();
  ASSERT_THAT(snapshot.comms, SizeIs(32));
  EXPECT_EQ(snapshot.comms[4].id, 0x9900u * 31);
  EXPECT_EQ(snapshot.comms[4].issued_seq, 0u);
  EXPECT_EQ(snapshot.ops.at(4).comm, UINT32_MAX) << "the new owner must not have records of the entry's earlier owner";
}

TEST_F(CoreTest, CustomReductionsAreNumberedInOrderOfCreation) {
  Begin(1 << 20);
  CommLocal* comm = MakeComm(0x100, 0, 2);
  comm->reduction_handles[0] = 0x5151;
  comm->reduction_handles[1] = 0x4242;
  comm->reductions = 2;
  Op op = Collective(0x100, 1);
  op.reduction = 0x4242;
  Do(op);
  op.reduction = 0x7777;
  Do(op);
  const Snapshot snapshot = Read();
  EXPECT_EQ(snapshot.ops.at(0).reduction, ring::kCustomReductionBase + 1);
  EXPECT_EQ(snapshot.ops.at(1).reduction, ring::kCustomReductionLast);
}

TEST(LoadedTest, EveryFunctionOfAnObjectIsNamedOnce) {
  std::multiset<std::string> names;
  ForEachFunctionIn(
      reinterpret_cast<const void*>(&getppid),
      [](const char* name, void* argument) noexcept {
        static_cast<std::multiset<std::string>*>(argument)->insert(name);
      },
      &names);
  EXPECT_GT(names.size(), 1000u);
  for (const char* name : {"getppid", "malloc", "qsort", "mmap"}) EXPECT_EQ(names.count(name), 1u) << name;
  int calls = 0;
  ForEachFunctionIn(
      &calls, [](const char*, void* argument) noexcept { ++*static_cast<int*>(argument); }, &calls);
  EXPECT_EQ(calls, 0) << "no object";
}

TEST(IdentityTest, ChildrenDifferByOrdinalColorAndExcludedSet) {
  unsigned char id[128] = {};
  for (int i = 0; i < 128; ++i) id[i] = static_cast<unsigned char>(i);
  const uint64_t root = RootId(id);
  id[127] ^= 1;
  EXPECT_NE(root, RootId(id));
  EXPECT_NE(SplitId(root, 1, 0), SplitId(root, 2, 0));
  EXPECT_NE(SplitId(root, 1, 0), SplitId(root, 1, 1));
  const int32_t some[] = {3, 1}, sorted[] = {1, 3}, other[] = {1, 2};
  EXPECT_EQ(SetHash(some, 2), SetHash(sorted, 2)) << "NCCL sorts the caller's list in place";
  EXPECT_NE(ShrinkId(root, 1, SetHash(some, 2)), ShrinkId(root, 1, SetHash(other, 2)));
  EXPECT_NE(ShrinkId(root, 1, SetHash(some, 2)), ShrinkId(root, 2, SetHash(some, 2)));
}

}  // namespace
}  // namespace lockstep::recorder
