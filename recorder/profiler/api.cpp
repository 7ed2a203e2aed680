// Records calls and groups that the wrappers missed. NCCL's profiler interface reports them from version 5 on.
#include "recorder/core/ops.h"
#include "recorder/core/profiler_handles.h"
#include "recorder/core/profiler_match.h"
#include "recorder/core/streams.h"

namespace lockstep::recorder::profiler {
namespace {

using ring::CallKind;

// A thread's open calls and groups. Only that thread uses them.
struct OwnCalls {
  uint32_t epoch;
  bool in_call;   // `flight` is an operation whose call has not returned
  bool in_p2p;    // inside a send or receive, which gets its record when NCCL launches it
  bool implicit;  // NCCL's own group around a single call
  bool explicit_group;
  bool ending;  // inside the end of the group
  InsideMark mark;
  OpInFlight flight;
};
OwnCalls g_calls[ring::kMaxThreads];

OwnCalls* CallsOf(const ThreadState* thread) noexcept {
  OwnCalls* own = &g_calls[thread->index];
  if (own->epoch != g.epoch) {
    *own = OwnCalls{};
    own->epoch = g.epoch;
  }
  return own;
}

void Leave(OwnCalls* own, ThreadState* thread) noexcept {
  if (own->in_call) EndOp(&own->flight, 0);
  if (own->in_p2p) StoreRelease(&thread->cell->call, uint16_t{0});
  own->in_call = own->in_p2p = false;
}

// Markers would come after work that NCCL has already launched, so the stream is only useful without markers.
const void* StreamFor(const void* stream) noexcept {
  return g.gpu == GpuMode::kProfiler || g.gpu == GpuMode::kOff ? stream : UnknownStream();
}

const void* HandleFor(const CommLocal* comm) noexcept { return Load(&g_tables.comm_handles[comm->index]); }

ThreadState* ThreadOfGroup(Handle group) noexcept {
  ThreadState* thread = Thread();
  return thread != nullptr && EntryIndex(group) == thread->index ? thread : nullptr;
}

}  // namespace

uint64_t RecordOwn(CommLocal* comm, const Task& task, const void* stream) noexcept {
  ThreadState* thread = Thread();
  if (thread == nullptr) return 0;
  OwnCalls* own = CallsOf(thread);
  if (thread->inside != nullptr && !own->ending && !own->in_call) return 0;  // inside a call that a wrapper records
  const void* on = stream != nullptr ? StreamFor(stream) : UnknownStream();
  const Op op = {task.kind, task.datatype, -1, task.root_or_peer, task.count, task.send, task.recv, HandleFor(comm),
                 on,        nullptr};
  const uint16_t call = Load(&thread->cell->call), comm_index = Load(&thread->cell->comm);
  const uint64_t seq = Load(&thread->cell->seq), since = Load(&thread->cell->since_ticks);
  const InsideMark* inside = thread->inside;
  OpInFlight flight;
  if (!BeginOp(op, &flight)) return 0;
  const uint64_t number = flight.recent->seq;
  EndOp(&flight, 0);
  if (call != 0) {
    thread->inside = inside;
    ShowCall(thread->cell, static_cast<CallKind>(call), comm_index, seq, since);
  }
  return number;
}

Handle BeginApi(Handle context, const Api& api) noexcept {
  if (!Recording() || Load(g.stop_word) != 0) return 0;
  ErrnoKeeper keep;
  const Identity call = CurrentCall();
  if (call.comm != kNone) {
    if (CommOfContext(context) == kNone) Bind(context, call.comm);
    return MakeApi(api.captured, call.kind, call.comm, UseOf(*g_tables.comms[call.comm].entry), call.seq);
  }
  const uint32_t known = CommOfContext(context);
  if (known != kNone && !IsOwn(known)) return 0;
  ThreadState* thread = Thread();
  if (thread == nullptr) return 0;
  OwnCalls* own = CallsOf(thread);
  Leave(own, thread);
  if (thread->inside != nullptr) return 0;
  CommLocal* comm = OwnComm(context, api.rank, 0);
  if (comm == nullptr) return 0;
  const uint64_t use = UseOf(*comm->entry);
  const void* stream = StreamFor(api.stream);
  if (api.point_to_point) {
    const uint32_t index = FindStream(thread, stream, comm->entry->device);
    own->in_p2p = true;
    ShowCall(thread->cell, api.kind, comm->index, 0, Now());
    return MakeApi(api.captured, api.kind, comm->index, use, index == kNone ? 0 : index + 1);
  }
  const Op op = {api.kind, api.datatype, -1, api.root, api.count, nullptr, nullptr, HandleFor(comm), stream, nullptr};
  if (!BeginOp(op, &own->flight)) return 0;
  own->in_call = true;
  own->flight.captured |= api.captured;
  return MakeApi(api.captured, api.kind, comm->index, use, own->flight.recent->seq);
}

void EndApi(Handle) noexcept {
  ErrnoKeeper keep;
  if (CurrentCall().comm != kNone) return;
  ThreadState* thread = Thread();
  if (thread == nullptr) return;
  // A single call lasts until NCCL's group around it has ended, because the work is launched there.
  OwnCalls* own = CallsOf(thread);
  if (!own->implicit) Leave(own, thread);
}

Handle BeginGroupApi(Handle context, int depth) noexcept {
  if (!Recording() || Load(g.stop_word) != 0) return 0;
  ErrnoKeeper keep;
  if (CurrentCall().comm != kNone) return 0;
  const uint32_t known = CommOfContext(context);
  if (known != kNone && !IsOwn(known)) return 0;
  ThreadState* thread = Thread();
  if (thread == nullptr) return 0;
  OwnCalls* own = CallsOf(thread);
  Leave(own, thread);
  if (thread->inside != nullptr || (t_local.group_depth > 0 && !own->explicit_group)) return 0;
  if (depth > 1 && !own->explicit_group) {
    NoteGroupStart(nullptr);
    t_local.group_depth = 1;
    NoteGroupDepth();
    own->explicit_group = true;
  } else if (depth <= 1) {
    own->implicit = true;
  }
  return MakeEntry(Type::kGroupApi, thread->index, thread->cell->use << 1);
}

void BeginGroupEndOf(Handle group) noexcept {
  ErrnoKeeper keep;
  ThreadState* thread = ThreadOfGroup(group);
  if (thread == nullptr) return;
  OwnCalls* own = CallsOf(thread);
  if (!own->explicit_group || own->ending) return;
  Leave(own, thread);
  own->ending = BeginGroupEnd(CallKind::kGroupEnd, &own->mark);
}

void EndGroupOf(Handle group) noexcept {
  ErrnoKeeper keep;
  ThreadState* thread = ThreadOfGroup(group);
  if (thread == nullptr) return;
  OwnCalls* own = CallsOf(thread);
  Leave(own, thread);
  own->implicit = false;
  if (!own->explicit_group) return;
  if (!own->ending) BeginGroupEnd(CallKind::kGroupEnd, &own->mark);
  t_local.group_depth = 0;
  EndGroup(0, false);
  NoteGroupDepth();
  own->explicit_group = own->ending = false;
}

}  // namespace lockstep::recorder::profiler
