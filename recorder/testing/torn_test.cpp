// Checks that no reader ever accepts a torn record. Sixteen writers use rings of 256 slots, and SIGSTOP stops them
// inside their writes while a reader reads. Each writer is a process that shares this process's memory, as a vfork
// child does, because SIGSTOP stops only whole processes. Built a second time under ThreadSanitizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <random>
#include <thread>

#include "recorder/core/streams.h"
#include "recorder/ring/reader.h"
#include "recorder/testing/torn.h"

namespace lockstep::recorder {
namespace {

using ring::CallKind;
using ring::Snapshot;
using ::testing::IsEmpty;

constexpr int kWriters = 16;
constexpr uint32_t kSlots = 256;

void* Handle(uint64_t value) { return reinterpret_cast<void*>(value); }
uint64_t CommHandle(uint32_t comm) { return 0x100000 + uint64_t{comm} * 0x100; }

struct Writer {
  pthread_t thread;
  std::atomic<int32_t> pid{0};
  std::atomic<uint32_t> inside{0};  // nonzero while a write is in progress
  std::atomic<bool> over{false};
  uint32_t number = 0;
  bool groups = true;
  uint64_t attempted = 0, dropped = 0, groups_made = 0, calls = 0, waits = 0;
  uint64_t collectives[2] = {};
  uint64_t p2p[2][2][torn::kPeers] = {};
};
Writer g_writers[kWriters];
std::atomic<bool> g_stop;

void Do(Writer* writer, const Op& op, int result) {
  if (!ShouldRecord(nullptr)) return;
  OpInFlight flight;
  if (!BeginOp(op, &flight)) return;
  ++writer->attempted;
  if (flight.slot == nullptr && flight.members == nullptr) ++writer->dropped;
  EndOp(&flight, result);
}

void Collective(Writer* writer, uint32_t which) {
  const uint32_t comm = writer->number * 2 + which;
  const uint64_t seq = ++writer->collectives[which] + (which == 0 ? 0 : torn::kSecond);
  const uint64_t key = torn::Key(comm, 0, seq);
  const Op op = {torn::CollectiveKind(key),
                 torn::Datatype(key),
                 torn::Reduction(key),
                 torn::Root(key),
                 torn::Count(key),
                 Handle(torn::SendAddress(key)),
                 Handle(torn::RecvAddress(key)),
                 Handle(CommHandle(comm)),
                 Handle(torn::StreamHandle(key)),
                 Handle(torn::Caller(key))};
  Do(writer, op, torn::Result(key));
}

void P2p(Writer* writer, uint32_t which, bool receive, int32_t peer, bool grouped) {
  const uint32_t comm = writer->number * 2 + which;
  const uint64_t seq = ++writer->p2p[which][receive ? 1 : 0][peer];
  const uint64_t key = torn::Key(comm, torn::Channel(receive, peer), seq);
  const Op op = {receive ? CallKind::kRecv : CallKind::kSend,
                 torn::Datatype(key),
                 -1,
                 peer,
                 torn::Count(key),
                 Handle(torn::SendAddress(key)),
                 Handle(torn::RecvAddress(key)),
                 Handle(CommHandle(comm)),
                 Handle(torn::StreamHandle(key)),
                 Handle(torn::Caller(key))};
  Do(writer, op, grouped ? 0 : torn::Result(key));
}

void Group(Writer* writer, uint32_t which) {
  const uint64_t group = ++writer->groups_made;
  if (t_local.group_depth++ == 0) NoteGroupStart(Handle(0x4321));
  NoteGroupDepth();
  for (uint64_t i = 0; i < torn::GroupSends(group); ++i)
    P2p(writer, which, i % 2 != 0, static_cast<int32_t>(i % torn::kPeers), true);
  if (torn::GroupHasCollective(group)) Collective(writer, which);
  InsideMark mark;
  const bool begun = BeginGroupEnd(CallKind::kGroupEnd, &mark);
  --t_local.group_depth;
  if (begun) EndGroup(0, false);
  NoteGroupDepth();
}

void Call(Writer* writer) {
  const uint64_t number = ++writer->calls << 8 | writer->number;
  const uint64_t key = torn::Key(255, 0, number);
  CallInFlight flight;
  CallArguments arguments;
  arguments.count = number;
  arguments.root_or_peer = torn::Root(key);
  arguments.address = Handle(torn::SendAddress(key));
  if (!BeginCall(CallKind::kGetUniqueId, nullptr, arguments, Handle(torn::Caller(key)), &flight)) return;
  ++writer->attempted;
  if (flight.slot == nullptr) ++writer->dropped;
  EndCall(&flight, torn::Result(key), nullptr);
}

void Wait(Writer* writer) {
  const ThreadState* thread = Thread();
  const uint64_t number = ++writer->waits;
  const uint64_t key = torn::Key(254, thread->index, number);
  if (EnterWait(torn::WaitKind(key), static_cast<uint32_t>(key % torn::kStreams), number)) LeaveWait();
}

// Writes the other table lines that several threads write: events, waits between streams, asynchronous errors.
void Tables(Writer* writer, uint64_t turn) {
  const uint64_t key = torn::Key(253, writer->number, turn);
  void* const event = Handle(0x90000 + (key % 64) * 8);
  NoteEventRecorded(event, Handle(torn::StreamHandle(key)));
  NoteStreamWaits(Handle(0x5000 + 64 * (key >> 20 & 3)), event);
  CommLocal* comm = KnownComm(Handle(CommHandle(static_cast<uint32_t>(key >> 8) % (2 * kWriters))));
  if (comm != nullptr && turn % 64 == 0) NoteAsyncError(comm, static_cast<int32_t>(key & 0xff));
}

void Write(Writer* writer) {
  if (Thread() == nullptr) return;
  for (uint64_t turn = 0; !g_stop.load(std::memory_order_relaxed); ++turn) {
    const auto which = static_cast<uint32_t>(turn & 1);
    writer->inside.store(1, std::memory_order_relaxed);
    switch (turn % 8) {
      case 3:
      case 6:
        if (writer->groups) {
          Group(writer, which);
        } else {
          P2p(writer, which, turn % 8 == 3, static_cast<int32_t>(turn % torn::kPeers), false);
        }
        break;
      case 5: Call(writer); break;
      case 7:
        Wait(writer);
        Tables(writer, turn);
        break;
      default: Collective(writer, which);
    }
    writer->inside.store(0, std::memory_order_relaxed);
  }
}

// Does the same as vfork, without the C library, because sanitizers turn vfork into fork. The child runs on this
// thread's stack and thread-local storage until it ends; this thread waits for that inside the call.
__attribute__((noinline)) void WriteInChild(Writer* writer) {
#if defined(__x86_64__)
  long result;
  register long stack asm("rsi") = 0;  // the child's stack: 0 means that it shares this thread's
  asm volatile("syscall"
               : "=a"(result)
               : "a"(SYS_clone), "D"(static_cast<long>(CLONE_VM | CLONE_VFORK | SIGCHLD)), "r"(stack)
               : "rcx", "rdx", "r8", "r10", "r11", "memory");
#else
  const long result = vfork();
#endif
  if (result == 0) {
    writer->pid.store(static_cast<int32_t>(syscall(SYS_getpid)));
    Write(writer);
    writer->over.store(true);
    syscall(SYS_exit_group, 0);
  }
  writer->over.store(true);
}

double Seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

class TornTest : public ::testing::Test {
 protected:
  void Begin(uint64_t bytes, uint32_t rings) {
    bytes_ = bytes;
    fd_ = memfd_create("ring", MFD_CLOEXEC);
    ASSERT_GE(fd_, 0);
    ASSERT_EQ(ftruncate(fd_, static_cast<off_t>(bytes)), 0);
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    ASSERT_NE(base, MAP_FAILED);
    base_ = static_cast<uint8_t*>(base);
    StartOn(base_, bytes, GpuMode::kOff);
    SetBudget({0, 0});  // a stopped writer would exceed the budget
    Shrink(rings);
    for (uint32_t i = 0; i < 2 * kWriters; ++i) {
      CommPlan plan;
      plan.origin = CallKind::kCommInitRank;
      plan.id = i + 1;
      plan.member_rank = 0;
      plan.size = 4;
      plan.device = 0;
      CommLocal* comm = NewComm(plan);
      ASSERT_NE(comm, nullptr);
      BindHandle(comm, Handle(CommHandle(i)));
      CommIsReady(comm);
      if (i % 2 == 1) comm->entry->issued_seq = comm->entry->issued_check = torn::kSecond;
    }
    for (uint64_t i = 0; i < torn::kStreams; ++i) {
      const uint32_t index = FindStreamSlow(Thread(), Handle(0x5000 + 64 * i), 0);
      ASSERT_NE(index, kNone);
      g.map.streams[index].issued = uint64_t{index} << 32 | 0x1234567;  // identifies the stream
    }
    g_stop = false;
    for (int i = 0; i < kWriters; ++i) {
      Writer& writer = g_writers[i];
      writer.pid = 0;
      writer.over = false;
      writer.number = static_cast<uint32_t>(i);
      writer.attempted = writer.dropped = writer.groups_made = writer.calls = writer.waits = 0;
      writer.groups = true;
      memset(writer.collectives, 0, sizeof(writer.collectives));
      memset(writer.p2p, 0, sizeof(writer.p2p));
    }
  }
  // Makes the rings smaller than in any file, so that they are overwritten within microseconds.
  static void Shrink(uint32_t rings) {
    g.map.capacities.ring_slots = g.map.capacities.overflow_slots = kSlots;
    g.map.capacities.rings = rings;
    for (ring::Section& section : g.map.header->sections) {
      if (section.kind == ring::SectionKind::kRings) section.stride = kSlots * sizeof(ring::OpSlot);
      if (section.kind == ring::SectionKind::kOverflow) section.count = kSlots;
    }
  }
  void TearDown() override {
    Stop(ring::RecorderState::kStopped, "test over");
    if (base_ != nullptr) munmap(base_, bytes_);
    if (fd_ >= 0) close(fd_);
  }
  Snapshot Read(bool digest = false) const {
    Snapshot snapshot;
    std::string error;
    EXPECT_TRUE(ring::ReadRing(fd_, {digest}, &snapshot, &error)) << error;
    return snapshot;
  }

  // Lets the writers write for this time. Stops and continues them again and again, while a reader reads.
  void Run(double seconds) {
    for (Writer& writer : g_writers) {
      const auto start = [](void* at) -> void* {
        WriteInChild(static_cast<Writer*>(at));
        return nullptr;
      };
      ASSERT_EQ(pthread_create(&writer.thread, nullptr, start, &writer), 0);
    }
    std::thread reader([&] {
      for (uint64_t look = 0; !g_stop.load(); ++look) {
        checker_.Look(Read(look % 4 == 3));
        ++looks_;
      }
    });
    std::mt19937 random(4711);
    const double end = Seconds() + seconds;
    bool living = true;
    // On a loaded machine, continues until enough writers were stopped inside their writes and a reader has read.
    while (living && (Seconds() < end || ((stopped_inside_ <= 20 || looks_ == 0) && Seconds() < end + 60)))
      living = StopSome(&random);
    g_stop = true;
    for (Writer& writer : g_writers) {
      pthread_join(writer.thread, nullptr);
      if (writer.pid != 0) waitpid(writer.pid, nullptr, 0);
    }
    reader.join();
    ASSERT_TRUE(living) << "writers could not be stopped";
  }

  // Stops one to eight writers for up to four milliseconds, in which the others overwrite their rings dozens of times.
  bool StopSome(std::mt19937* random) {
    const uint32_t first = (*random)(), step = 1 + 2 * ((*random)() % 8), n = 1 + (*random)() % 8;
    int32_t pids[8];
    const std::atomic<uint32_t>* inside[8];
    for (uint32_t i = 0; i < n; ++i) {
      const Writer& writer = g_writers[(first + i * step) % kWriters];
      pids[i] = writer.pid.load();
      inside[i] = &writer.inside;
    }
    const int stopped = StopFor(pids, inside, n, static_cast<long>((*random)() % 4000) * 1000);
    const timespec run{0, static_cast<long>((*random)() % 500) * 1000};
    nanosleep(&run, nullptr);
    if (stopped < 0) return false;
    stopped_inside_ += static_cast<uint64_t>(stopped);
    return true;
  }

  // Returns how many of the writers were inside a write, or -1 if a writer could not be stopped. Uses only system
  // calls, unseen by a sanitizer, because a writer may be stopped inside the sanitizer's runtime while it holds a lock.
  __attribute__((no_sanitize("thread"), noinline)) static int StopFor(const int32_t* pids,
                                                                      const std::atomic<uint32_t>* const* inside,
                                                                      uint32_t n, long nanoseconds) {
    int found = 0;
    uint32_t done = 0;
    for (; done < n; ++done) {
      if (pids[done] == 0) continue;
      int status = 0;
      if (syscall(SYS_kill, pids[done], SIGSTOP) != 0) found = -1;
      if (found < 0 || syscall(SYS_wait4, pids[done], &status, WUNTRACED, nullptr) != pids[done] ||
          (status & 0xff) != 0x7f)
        found = -1;
      if (found < 0) break;
      found += static_cast<int>(__atomic_load_n(reinterpret_cast<const uint32_t*>(inside[done]), __ATOMIC_RELAXED));
    }
    const timespec pause{0, nanoseconds};
    syscall(SYS_nanosleep, &pause, nullptr);
    for (uint32_t i = 0; i < n; ++i)
      if (pids[i] != 0) syscall(SYS_kill, pids[i], SIGCONT);
    return found;
  }

  // After all writers have stopped, checks that every record exists and is in order, and that every loss is counted.
  void ExpectAllCounted(bool groups) {
    const Snapshot snapshot = Read();
    EXPECT_THAT(snapshot.problems, IsEmpty());
    EXPECT_EQ(snapshot.process.state, ring::RecorderState::kRecording) << snapshot.process.stop_reason;
    checker_.Look(snapshot);
    EXPECT_THAT(checker_.wrong(), IsEmpty());
    std::map<uint32_t, uint64_t> found, last;
    for (const ring::OpSnapshot& op : snapshot.ops) {
      const bool own = g.map.threads[op.thread].ring != ring::kNoIndex16;
      if (own && found[op.thread] != 0) {
        EXPECT_EQ(op.index, last[op.thread] + 1) << "a record is missing in the ring of thread " << op.thread;
      }
      last[op.thread] = op.index;
      ++found[op.thread];
      EXPECT_NE(op.return_ns, 0);
    }
    uint64_t attempted = 0, dropped = 0, shared = 0, issued = 0, p2p = 0, lost = 0;
    for (const Writer& writer : g_writers) {
      attempted += writer.attempted + writer.groups_made;
      dropped += writer.dropped;
      issued += writer.collectives[0] + writer.collectives[1];
      for (const auto& comm : writer.p2p)
        for (const auto& direction : comm)
          for (const uint64_t n : direction) p2p += n;
    }
    for (const ring::ThreadSnapshot& thread : snapshot.threads) {
      EXPECT_EQ(thread.overwritten, thread.calls - found[thread.index]);
      EXPECT_EQ(thread.call, CallKind::kNone);
      EXPECT_EQ(thread.wait, CallKind::kNone);
      attempted -= thread.calls;
      if (g.map.threads[thread.index].ring != ring::kNoIndex16) {
        EXPECT_EQ(last[thread.index] + 1, thread.calls) << "the newest record must be there";
      } else {
        shared += thread.calls;
      }
    }
    EXPECT_EQ(attempted, 0u) << "every call must have an index";
    for (const ring::CommSnapshot& comm : snapshot.comms) {
      const uint64_t offset = comm.index % 2 == 1 ? torn::kSecond : 0;
      EXPECT_LE(comm.launched_seq, comm.issued_seq);
      issued -= comm.issued_seq - offset;
      lost += comm.lost_records - offset;
      for (const ring::PeerProgress& peer : comm.peers) p2p -= peer.sends + peer.recvs;
    }
    EXPECT_EQ(issued, 0u);
    EXPECT_EQ(p2p, 0u);
    // written + dropped = attempted on the shared ring; only the header's count includes the drops of the group
    // records.
    EXPECT_EQ(g.map.header->overflow_begun, shared);
    if (groups) {
      EXPECT_GE(snapshot.records_lost, dropped);
    } else {
      EXPECT_EQ(snapshot.records_lost, dropped);
    }
    printf(
        "%lu looks took %lu records (%lu of them unfinished); %lu stops inside a write; %lu shared, %lu dropped, %lu "
        "no longer there\n",
        looks_.load(), checker_.records(), checker_.unfinished(), stopped_inside_, shared, snapshot.records_lost, lost);
    EXPECT_GT(looks_.load(), 0u);
    EXPECT_GT(stopped_inside_, 20u);
  }

  static constexpr double kSeconds = 3;
  int fd_ = -1;
  uint8_t* base_ = nullptr;
  uint64_t bytes_ = 0, stopped_inside_ = 0;
  std::atomic<uint64_t> looks_{0};
  torn::Checker checker_;
};

TEST_F(TornTest, NoRecordIsTornIfEachThreadHasARing) {
  Begin(4 << 20, 16);
  Run(kSeconds);
  ExpectAllCounted(true);
}

TEST_F(TornTest, NoRecordIsTornWithFourRingsAndASharedOne) {
  Begin(512 << 10, 4);
  Run(kSeconds);
  ExpectAllCounted(true);
}

TEST_F(TornTest, NoRecordIsTornIfAllShareOneRingAndEveryDropIsCounted) {
  Begin(512 << 10, 0);
  for (Writer& writer : g_writers) writer.groups = false;
  Run(kSeconds);
  ExpectAllCounted(false);
}

}  // namespace
}  // namespace lockstep::recorder
