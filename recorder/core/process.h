// The recorder's state in this process: whether it records, its threads, its tables. Each part has one writer. Once
// recording has begun, this code frees nothing, takes no lock and never waits.
#pragma once

#include <stdint.h>

#include "recorder/base/clock.h"
#include "recorder/base/environment.h"
#include "recorder/base/loaded.h"
#include "recorder/base/ring_file.h"
#include "recorder/base/sys.h"
#include "recorder/core/budget.h"
#include "recorder/core/real.h"
#include "recorder/ring/calls.h"
#include "recorder/ring/layout.h"
#include "recorder/ring/snapshot.h"

namespace lockstep::recorder {

inline constexpr uint32_t kNone = UINT32_MAX;

// What the process knows about a communicator beyond its entry in the file. NCCL allows only one thread at a time to
// use a communicator, so the fields have one writer unless stated otherwise.
struct CommLocal {
  ring::CommEntry* entry;
  uint32_t index;
  uint32_t library;  // the NCCL library that created the communicator, numbered as in AskedLibrary
  bool nonblocking;
  bool ready;              // NCCL may be called with the communicator
  bool needs_rank;         // child of a split or shrink whose rank and size are not known yet
  uint32_t children;       // number of split, shrink and grow calls: the ordinal
  uint32_t nccl_children;  // NCCL's own child counter, which is part of a child's hash
  uint64_t magic;          // first 8 bytes of the unique id, or the id. NCCL derives a grown communicator's id from it
  uint64_t root_hash;      // hash of the unique id's bytes; 0 if not created from one
  uint32_t awaits_id;      // 1 + index of the thread in ncclCommInitAll, until NCCL has created the communicator's ID
  uint32_t root_use;       // how often this process created a member of this rank from these bytes, including this one
  int32_t last_async;      // written by the thread that calls ncclCommGetAsyncError
  // For a non-blocking communicator: how many operations have begun, and how many of their calls have returned.
  uint32_t async_begun, async_returned;
  bool holds;
  uint32_t reductions;           // number of PreMulSum handles so far
  int32_t reduction_handles[8];  // the newest handles; [ordinal % 8]
  // The state to restore if the group fails, while operations are queued in an open group.
  bool in_group;
  uint32_t group_thread;  // index of the group's thread
  bool group_init;        // the communicator's init call is part of the group
  uint32_t group_next;    // next communicator of that group
  uint64_t group_issued, group_hash;
  uint64_t group_recent, group_recent_p2p;
  // The caller's variable for the handle; null once bound.
  void** pending;
  uint32_t pending_parent;  // kNone if there is no parent
};

// Aligned to cache lines, because threads on neighboring streams would otherwise contend at every marker.
struct alignas(64) StreamLocal {
  ring::StreamCell* cell;
  ring::MarkLine* mark;
  uint64_t device_mark;  // address of the marker line as seen by the GPU; 0 if there is none
  void* context;         // the stream's CUDA context
  uint64_t identity;     // the driver's own number of the stream; 0 if unknown
  uint8_t ways;          // kWayMarks, kWayEvents; 0 if the stream's progress is not recorded
  uint8_t tries;         // remaining attempts, because the obstacle may be temporary
  bool timed;            // the current use has events with times
  uint32_t busy;         // 1 + index of the thread between TakeTicket and EndMark; only one thread may be there
  // Communicators, by bit, whose work may not be on the stream yet. No marker may precede that work.
  uint64_t held[ring::kMaxComms / 64];
};

struct ThreadState;
// An object on the stack of a recorded call, which exists as long as the call runs. It distinguishes a nested call (by
// NCCL or a signal handler) from the next call after an exception or jump has left the first call.
struct InsideMark {
  const ThreadState* thread;
  const InsideMark* self;
};

inline constexpr uint32_t kGroupStreams = 64;
inline constexpr uint32_t kGroupOverflow = 64;

// A thread's own state; no other thread accesses it.
struct ThreadState {
  ring::ThreadCell* cell;
  ring::OpSlot* slots;  // null if there is none yet, or for the overflow ring
  uint64_t mask;
  uint64_t begun, ops, groups;
  uint32_t index;
  bool overflow;  // the thread uses the shared ring, because no other was left
  // The mark of the recorded call that the thread is in, or null. NCCL's own calls inside it are not recorded.
  const InsideMark* inside;
  // True while the call is counted but has not yet reached NCCL. The fields below are the state to restore if a signal
  // handler jumps out or NCCL refuses the call.
  bool entering;
  struct Undo {
    CommLocal* comm;
    uint64_t* counter;  // counter of the peer; null if the table has no room
    bool collective;
    // For a collective, the previous sequence number and hash; otherwise the counts of the peer and of the
    // communicator.
    uint64_t issued, other;
  } undo;
  const void* wait_frame;  // stack frame of the thread's current wait
  OwnTimes own;
  uint64_t group_sampled;  // like OpInFlight::sampled, for the group's end
  // Direct-mapped caches.
  struct Cached {
    const void* key;
    uint32_t index;
  } comms[8], streams[8];
  // The open group.
  uint64_t group;         // number of the group; 0 outside a group or before its first operation
  uint64_t group_header;  // slot number of the group's record
  uint64_t group_enter;
  uint64_t group_ops;
  const void* group_caller;
  uint32_t group_comms;  // list through CommLocal::group_next
  ring::MemberSlot* member_slot;
  uint32_t group_stream_count;
  struct GroupStream {
    uint32_t stream;
    uint64_t ticket;
    uint64_t graph;
    bool mark;  // the group has a ticket on the stream, and EndMark must be called
    bool captured;
  } group_streams[kGroupStreams];
  uint32_t group_overflow_count;
  uint64_t group_overflow[kGroupOverflow];
};

enum class GroupCall : uint8_t { kNone, kStart, kEnd };
// Must remain a few bytes, because it is in initial-exec thread-local storage.
struct ThreadLocal {
  ThreadState* state;
  uint32_t epoch;
  int32_t group_depth;      // also counted while nothing is recorded, because a group may contain the first init
  GroupCall in_group_call;  // another tool's shim may pass one group call through here twice
  bool in_runtime;          // inside a wrapped call of the CUDA runtime, so its driver calls are already recorded
};
extern constinit thread_local ThreadLocal t_local __attribute__((tls_model("initial-exec")));

struct CodeRange {
  uintptr_t begin, bytes;
};

// Values of *Process::word. A forked child's page is wiped, so it reads kIdle there.
inline constexpr uint32_t kIdle = 0;
inline constexpr uint32_t kRecording = 1;
inline constexpr uint32_t kStarting = 2;
inline constexpr uint32_t kOff = 3;

struct Process {
  // Line 0: read by every call.
  uint32_t* word;
  const uint32_t* stop_word;
  uint64_t next_calibration = 0;  // ticks
  CodeRange nccl{};               // code of the first NCCL found; calls from there are internal
  uint32_t nccl_copies = 0;       // used entries of nccl_texts
  uint32_t epoch = 1;             // changes when a child process starts its own recording
  GpuMode gpu = GpuMode::kOff;
  uint32_t gpu_sample = 1;
  bool cuda = false;
  bool profiler_finds = false;  // NCCL's profiler reports operations without the CPU call
  uint8_t cuda_layers = 0;      // kCudaRuntime, kCudaDriver
  alignas(64) RingMap map{};
  CodeRange more_nccl[kMaxNcclCopies]{};
  uintptr_t nccl_texts[kMaxNcclCopies]{};  // start of the code of each NCCL library; 0 for none
  bool begun = false;                      // a ring was requested in this process or its parent
  bool ring_is_file = false;               // false if a test provided the memory
  bool said = false;                       // the warning line was printed
  uint32_t threads_used = 0, rings_used = 0, comms_used = 0, streams_used = 0, root_comms = 0;
};
extern Process g;

// Initially all zero, so that it takes no bytes in the library's file, and no page before its first use.
struct Tables {
  const void* comm_handles[ring::kMaxComms];
  CommLocal comms[ring::kMaxComms];
  const void* stream_handles[ring::kMaxStreams];
  StreamLocal streams[ring::kMaxStreams];
  ThreadState threads[ring::kMaxThreads];
};
extern Tables g_tables;

// Returns true if the progress of streams is recorded, by marks or by events.
inline bool Marking() noexcept { return g.gpu != GpuMode::kOff && g.gpu != GpuMode::kProfiler; }

inline bool Recording() noexcept { return Load(g.word) == kRecording; }

// Returns true if `caller` is in NCCL itself.
bool FromOtherNccl(const void* caller) noexcept;
inline bool FromNccl(const void* caller) noexcept {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  if (address - g.nccl.begin < g.nccl.bytes) return true;
  return LOCKSTEP_UNLIKELY(g.nccl_copies > 1) && FromOtherNccl(caller);
}
// Returns the NCCL library that contains `caller`; kNone if there is none.
uint32_t NcclCopyOf(const void* caller) noexcept;
// Returns the number of the NCCL library `object`, which must stay mapped; kNone if there are too many. `pure`: all its
// code is NCCL's, so calls from there are internal.
uint32_t AddNccl(const LoadedObject& object, bool pure) noexcept;

// Starts recording unless something prevents it. Called before the first communicator is created. Returns whether the
// process records.
bool Start() noexcept;

// Starts on a ring in the caller's memory, for tests and benchmarks of the core alone.
void StartOn(uint8_t* zeroed, uint64_t bytes, GpuMode gpu) noexcept;

// Stops permanently in this process, and writes the reason and time into the header.
void Stop(ring::RecorderState state, const char* reason) noexcept;
// Like Stop, for a stop that was not requested; also prints one line on standard error.
void StopAndSay(const char* reason) noexcept;

ThreadState* RegisterThread() noexcept;
// Removes all communicators from the thread's open group, because the group was left without its end.
void LeaveGroup(ThreadState* thread) noexcept;

// Returns this thread's state, created at its first call; null if there is no room.
inline ThreadState* Thread() noexcept {
  if (LOCKSTEP_LIKELY(t_local.epoch == g.epoch)) return t_local.state;
  return RegisterThread();
}

// Measures the recorder's own work in one of kSampleEvery CUDA calls, from construction to destruction.
class TableTime {
 public:
  TableTime() noexcept {
    ThreadState* thread = LOCKSTEP_LIKELY(t_local.epoch == g.epoch) ? t_local.state : nullptr;
    if (thread == nullptr || !SampleNow(&thread->own.tables)) return;
    own_ = &thread->own.tables;
    began_ = Now();
  }
  ~TableTime() {
    if (LOCKSTEP_UNLIKELY(own_ != nullptr)) AddOwnTime(own_, Now() - began_);
  }
  TableTime(const TableTime&) = delete;
  TableTime& operator=(const TableTime&) = delete;

 private:
  OwnTime* own_ = nullptr;
  uint64_t began_ = 0;
};

// Gives the thread its own ring, or the shared one.
void AssignRing(ThreadState* thread) noexcept;

// Does the periodic work, every half second, on the next thread that makes a call: the operator's switch, the clocks,
// and threads that ended inside a call. May stop recording.
void Calibrate(uint64_t now) noexcept;

// Returns whether `thread` left a call without returning (by an exception, or a jump out of a signal handler). If so,
// corrects the state. `frame` is the stack frame of the current call.
bool LeftTheCall(ThreadState* thread, const void* frame) noexcept;

// A signal handler may call NCCL between any two instructions. It finds either no call or this one, because one store
// enters the call.
inline void EnterCall(ThreadState* thread, InsideMark* mark) noexcept {
  mark->thread = thread;
  mark->self = mark;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread->inside = mark;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
inline void LeaveCall(ThreadState* thread) noexcept {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread->inside = nullptr;
}

// Shows readers the call that the thread is in. They use the other fields only while `call` is set.
inline void ShowCall(ring::ThreadCell* cell, ring::CallKind kind, uint32_t comm, uint64_t seq,
                     uint64_t since) noexcept {
  Store(&cell->seq, seq);
  Store(&cell->since_ticks, since);
  Store(&cell->comm, comm);
  StoreRelease(&cell->call, static_cast<uint16_t>(kind));
}
// Shows that the call has returned, and leaves it.
inline void ShowReturn(ThreadState* thread, uint64_t now) noexcept {
  StoreRelease(&thread->cell->call, uint16_t{0});
  Store(&thread->cell->last_call_ticks, now);
  LeaveCall(thread);
}

// The call site of `caller`: its offset in its object, and a hash of the object's build id. Cached.
struct CallSite {
  uint64_t offset;
  uint32_t object;
};
CallSite FindCallSite(const void* caller) noexcept;

}  // namespace lockstep::recorder
