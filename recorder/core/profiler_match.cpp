// Finds the record of the CPU call for an operation that NCCL reports.
#include "recorder/core/profiler_match.h"

#include "recorder/core/comms.h"
#include "recorder/core/ops.h"
#include "recorder/core/profiler_handles.h"

namespace lockstep::recorder::profiler {
namespace {

using ring::CallKind;

uint64_t g_order[ring::kMaxComms], g_completed_order[ring::kMaxComms];

// CPU calls of one communicator that NCCL has not reported yet. New ones overwrite the oldest. The communicator's
// thread writes them; the thread that launches takes them.
struct Pending {
  CallKind kind;
  uint8_t taken;
  int32_t root_or_peer;
  uint64_t bytes;
  const void *send, *recv;
  uint64_t seq;
};
constexpr uint32_t kPending = 128;
struct Waiting {
  uint64_t written;
  uint64_t last_collective;
  uint64_t created_ticks;  // when the current use of the table entry began
  Pending ops[kPending];
};
Waiting g_waiting[ring::kMaxComms];

bool MovesParts(CallKind kind) noexcept {
  return kind == CallKind::kAlltoAll || kind == CallKind::kGather || kind == CallKind::kScatter;
}

bool Contains(const void* begin, uint64_t bytes, const void* at) noexcept {
  return begin != nullptr && at != nullptr &&
         reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(begin) < (bytes != 0 ? bytes : 1);
}

bool Same(const Pending& op, const Task& task, uint64_t bytes) noexcept {
  if (op.kind != task.kind || op.bytes != bytes || op.recv != task.recv) return false;
  if (op.kind != CallKind::kBroadcast && op.send != task.send) return false;
  return task.root_or_peer < 0 || op.root_or_peer < 0 || op.root_or_peer == task.root_or_peer;
}

// Returns whether the task is a send or receive as a part of `op`: NCCL executes some collectives as sends and receives
// within their buffers.
bool PartOf(const Pending& op, const Task& task, int32_t size) noexcept {
  if (!ring::IsPointToPoint(task.kind) || !MovesParts(op.kind)) return false;
  const uint64_t whole = op.bytes * static_cast<uint64_t>(size > 0 ? size : 1);
  return task.kind == CallKind::kSend ? Contains(op.send, whole, task.send) : Contains(op.recv, whole, task.recv);
}

Identity FindPending(const CommLocal& comm, const Task& task, uint64_t after, bool take = true) noexcept {
  Waiting& waiting = g_waiting[comm.index];
  Identity found{comm.index, task.kind, 0, false};
  if (waiting.created_ticks != comm.entry->created_ticks) return found;
  const uint64_t written = LoadAcquire(&waiting.written);
  const uint64_t bytes = task.count * BytesOf(task.datatype);
  const uint64_t first = written > kPending ? written - kPending : 0;
  for (uint64_t n = first; n < written; ++n) {
    Pending& op = waiting.ops[n % kPending];
    if (ring::IsCollective(op.kind) && op.seq <= after) continue;
    if (Load(&op.taken) != 0 || !Same(op, task, bytes)) continue;
    if (take && !Swap<uint8_t>(&op.taken, 0, 1)) continue;
    found.seq = op.seq;
    return found;
  }
  for (uint64_t n = written; n > first; --n) {
    const Pending& op = waiting.ops[(n - 1) % kPending];
    if (!PartOf(op, task, comm.entry->size)) continue;
    found.kind = op.kind;
    found.seq = op.seq;
    return found;
  }
  return found;
}

// Returns the CPU call that the thread is in now, if it is this operation on this communicator.
Identity FindCurrent(const CommLocal& comm, const Task& task) noexcept {
  const Identity call = CurrentCall();
  if (call.comm != comm.index) return {};
  const bool same = call.kind == task.kind || (MovesParts(call.kind) && ring::IsPointToPoint(task.kind));
  return same ? call : Identity{};
}

// Finds the communicator of a context that init could not identify. Uses the call that the thread is in, NCCL's own
// hash, or a matching operation.
void BindLate(Handle context, const Task& task) noexcept {
  const Identity call = CurrentCall();
  if (call.comm != kNone) {
    Bind(context, call.comm);
    return;
  }
  const uint32_t used = Load(&g.comms_used);
  for (int pass = 0; pass < 2; ++pass) {
    for (uint32_t i = 0; i < used && i < ring::kMaxComms; ++i) {
      const CommLocal& comm = g_tables.comms[i];
      if (comm.entry == nullptr || (Load(&comm.entry->flags) & ring::kCommProfiled) != 0) continue;
      if (comm.entry->member_rank >= 0 && comm.entry->member_rank != task.rank) continue;
      const bool fits = pass == 0 ? task.comm_hash != 0 && comm.entry->id == task.comm_hash
                                  : FindPending(comm, task, 0, false).seq != 0;
      if (!fits) continue;
      Bind(context, i);
      return;
    }
  }
}

}  // namespace

Identity CurrentCall() noexcept {
  if (t_local.epoch != g.epoch || t_local.state == nullptr || t_local.state->inside == nullptr) return {};
  const ring::ThreadCell& cell = *t_local.state->cell;
  const auto kind = static_cast<CallKind>(Load(&cell.call));
  const uint16_t comm = Load(&cell.comm);
  if ((!ring::IsCollective(kind) && !ring::IsPointToPoint(kind)) || comm >= ring::kMaxComms || IsOwn(comm)) return {};
  return {comm, kind, Load(&cell.seq), false};
}

void NotePending(const CommLocal* comm, const Op& op, uint64_t seq) noexcept {
  Waiting& waiting = g_waiting[comm->index];
  if (waiting.created_ticks != comm->entry->created_ticks) {
    waiting.written = waiting.last_collective = 0;
    waiting.created_ticks = comm->entry->created_ticks;
  }
  const bool collective = ring::IsCollective(op.kind);
  if (collective && seq <= waiting.last_collective) {
    // Calls with this or a later number were refused or dropped, because the number is used again.
    for (Pending& old : waiting.ops) {
      if (ring::IsCollective(old.kind) && old.seq >= seq) Store(&old.taken, 1u);
    }
  }
  if (collective) waiting.last_collective = seq;
  const uint64_t n = waiting.written;
  Pending& place = waiting.ops[n % kPending];
  Store(&place.taken, 1u);
  FenceRelease();
  place.kind = op.kind;
  place.root_or_peer = op.root_or_peer;
  place.bytes = op.count * BytesOf(op.datatype);
  place.send = op.send;
  place.recv = op.recv;
  place.seq = seq;
  StoreRelease(&place.taken, 0u);
  StoreRelease(&waiting.written, n + 1);  // pairs with the acquire in FindPending
}

Identity Identify(Handle context, Handle parent, const Task& task) noexcept {
  if (TypeOf(parent) == Type::kApi) {
    const auto comm = static_cast<uint32_t>(parent >> 39 & 255);
    const auto kind = static_cast<CallKind>(parent >> 47 & 63);
    const bool captured = (parent >> 53 & 1) != 0;
    const bool same_use = comm < g.map.capacities.comms && g_tables.comms[comm].entry != nullptr &&
                          UseOf(*g_tables.comms[comm].entry) == (parent >> 33 & 63);
    if (same_use) {
      // The sequence number of a CPU call; for a send or receive that only the profiler reported, the stream + 1.
      const uint64_t low = parent & kApiSeqMask;
      if (!IsOwn(comm) || !ring::IsPointToPoint(task.kind)) return {comm, kind, low, captured};
      const void* stream = nullptr;
      if (low != 0 && low <= ring::kMaxStreams) stream = Load(&g_tables.stream_handles[low - 1]);
      return {comm, task.kind, captured ? 0 : RecordOwn(&g_tables.comms[comm], task, stream), captured};
    }
  }
  if (CommOfContext(context) == kNone) BindLate(context, task);
  CommLocal* comm = OwnComm(context, task.rank, task.comm_hash);
  if (comm == nullptr) return {};
  if (IsOwn(comm->index)) return {comm->index, task.kind, RecordOwn(comm, task, nullptr), false};
  const Identity current = FindCurrent(*comm, task);
  if (current.comm != kNone) {
    FindPending(*comm, task, current.seq - 1);  // the call no longer waits
    return current;
  }
  return FindPending(*comm, task, comm->in_group ? comm->group_issued : 0);
}

uint64_t NextOrder(uint32_t comm) noexcept { return Add(&g_order[comm], 1) + 1; }
void NoteCompleted(uint32_t comm, uint64_t order) noexcept {
  if (comm < ring::kMaxComms && order > Load(&g_completed_order[comm])) Store(&g_completed_order[comm], order);
}
uint64_t CompletedOrder(uint32_t comm) noexcept { return comm < ring::kMaxComms ? Load(&g_completed_order[comm]) : 0; }

}  // namespace lockstep::recorder::profiler
