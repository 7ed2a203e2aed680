#include "recorder/core/ops.h"

#include <signal.h>

#include "recorder/base/host_memory.h"
#include "recorder/base/signature.h"
#include "recorder/core/gpu_marks.h"
#include "recorder/core/graphs.h"
#include "recorder/core/profiler_events.h"
#include "recorder/core/real.h"
#include "recorder/core/slots.h"
#include "recorder/core/streams.h"

namespace lockstep::recorder {
namespace {

using ring::CallKind;
using ring::CommEntry;
using ring::MemberSlot;
using ring::OpSlot;
using ring::OpStage;
using ring::RecentOp;

uint8_t Stage(OpStage stage) noexcept { return static_cast<uint8_t>(stage); }

// Datatypes of a newer NCCL keep their numbers.
uint8_t Datatype(int32_t datatype) noexcept {
  return datatype < ring::kNoDatatype ? static_cast<uint8_t>(datatype) : ring::kNoDatatype - 1;
}

LOCKSTEP_COLD uint8_t CustomReduction(const CommLocal* comm, int32_t handle) noexcept {
  for (uint32_t back = 1; back <= 8 && back <= comm->reductions; ++back) {
    const uint32_t ordinal = comm->reductions - back;
    if (comm->reduction_handles[ordinal % 8] != handle) continue;
    const uint32_t value = ring::kCustomReductionBase + ordinal;
    return static_cast<uint8_t>(value < ring::kCustomReductionLast ? value : ring::kCustomReductionLast);
  }
  return ring::kCustomReductionLast;
}

uint8_t Reduction(const CommLocal* comm, int32_t reduction) noexcept {
  if (reduction < 0) return ring::kNoReduction;
  if (LOCKSTEP_LIKELY(reduction < 5)) return static_cast<uint8_t>(reduction);
  const uint8_t custom = CustomReduction(comm, reduction);
  // Reductions of a newer NCCL keep their numbers.
  if (custom == ring::kCustomReductionLast && reduction < ring::kCustomReductionBase)
    return static_cast<uint8_t>(reduction);
  return custom;
}

// Fills the record of a call that has not returned. Sets the other fields to "not applicable", except the guard, which
// keeps other writers out of a shared slot.
void FillCall(const ThreadState* thread, CallKind kind, const CallSite& site, uint64_t index, uint64_t enter_ticks,
              OpSlot* op) noexcept {
  memset(reinterpret_cast<char*>(op) + sizeof(op->guard), 0, sizeof(*op) - sizeof(op->guard));
  op->type = static_cast<uint8_t>(ring::SlotType::kOp);
  op->stage = Stage(OpStage::kEntered);
  op->datatype = ring::kNoDatatype;
  op->reduction = ring::kNoReduction;
  op->kind = static_cast<uint16_t>(kind);
  op->comm = ring::kNoIndex16;
  op->root_or_peer = -1;
  op->stream = ring::kNoIndex16;
  op->index_low = static_cast<uint32_t>(index);
  op->group_low = static_cast<uint32_t>(thread->group);
  op->thread = static_cast<uint16_t>(thread->index);
  op->enter_ticks = enter_ticks;
  op->caller = site.offset;
  op->caller_object = site.object;
}

// Opens the group's record. Its slot and number are taken at the first operation, so that an empty group leaves no
// record.
void OpenGroup(ThreadState* thread) noexcept {
  thread->group = ++thread->groups;
  Store(&thread->cell->groups, thread->groups);
  Slot slot = TakeSlot(thread);
  thread->group_header = slot.number;
  const uint64_t index = thread->ops;
  Store(&thread->cell->ops, ++thread->ops);
  if (slot.op == nullptr) return;
  FillCall(thread, CallKind::kGroup, FindCallSite(thread->group_caller), index, thread->group_enter, slot.op);
  PublishSlot(thread, slot);
}

// The stream that an operation goes to, and whether that stream is being captured.
struct Use {
  uint32_t stream = kNone;
  bool marks = false;  // true if the stream's progress can be recorded
  Capture capture = Capture::kNo;
  uint64_t graph = 0;
};

// First queries whether the stream is capturing, because a capturing stream allows no other query.
Use LookAtStream(ThreadState* thread, const void* handle, uint32_t stream, int32_t device) noexcept {
  Use use;
  use.stream = stream;
  if (stream == kNone) return use;
  const bool marking = Marking() && MayMark(g_tables.streams[stream]);
  if (!marking && !Capturing()) return use;
  use.capture = LookForCapture(g_tables.streams[stream], &use.graph);
  if (!marking || use.capture != Capture::kNo) return use;
  if (LOCKSTEP_UNLIKELY(!IsSameStream(g_tables.streams[stream]))) {
    ForgetStream(handle);
    use.stream = FindStream(thread, handle, device);
    if (use.stream == kNone) return use;
  }
  use.marks = MarksReady(&g_tables.streams[use.stream]);
  return use;
}

ThreadState::GroupStream* InGroup(ThreadState* thread, uint32_t stream) noexcept {
  for (uint32_t i = thread->group_stream_count; i > 0; --i) {
    if (thread->group_streams[i - 1].stream == stream) return &thread->group_streams[i - 1];
  }
  return nullptr;
}

// Returns the group's use of a stream, with one ticket for all its operations there; null if there is no room.
ThreadState::GroupStream* JoinStream(ThreadState* thread, const Use& use, bool nonblocking) noexcept {
  if (ThreadState::GroupStream* known = InGroup(thread, use.stream)) return known;
  if (thread->group_stream_count == kGroupStreams) return nullptr;
  ThreadState::GroupStream* joined = &thread->group_streams[thread->group_stream_count++];
  *joined = {use.stream, 0, 0, false, false};
  joined->graph = use.graph;
  joined->captured = use.capture == Capture::kYes;
  if (use.marks) joined->ticket = TakeTicket(thread, &g_tables.streams[use.stream], nonblocking);
  joined->mark = joined->ticket != 0;
  return joined;
}

// Packs a send or receive into one slot with others of its group. Returns null if it needs its own slot.
MemberSlot* AddMember(ThreadState* thread, const Op& op, uint32_t comm, uint32_t stream, uint64_t seq, uint64_t ticket,
                      uint64_t now, uint32_t* member, uint8_t flags) noexcept {
  if (thread->overflow || op.count > ring::kMemberMaxCount || static_cast<uint32_t>(op.datatype) > 14) return nullptr;
  MemberSlot* slot = thread->member_slot;
  constexpr uint8_t kKind = ring::kMembersNoTicket | ring::kMembersCaptured;
  const auto stream16 = static_cast<uint16_t>(stream);
  const bool fits = slot != nullptr && slot->used < ring::kMembersPerSlot && slot->comm == comm &&
                    slot->stream == stream16 && (slot->flags & kKind) == flags;
  Slot fresh{};
  if (!fits) {
    fresh = TakeSlot(thread);
    if (fresh.op == nullptr || thread->overflow) return nullptr;
    slot = reinterpret_cast<MemberSlot*>(fresh.op);
    slot->type = static_cast<uint8_t>(ring::SlotType::kMembers);
    slot->stage = Stage(OpStage::kQueued);
    slot->used = 0;
    slot->flags = flags;
    slot->stream = stream16;
    slot->comm = static_cast<uint16_t>(comm);
    slot->enter_ticks = now;
    slot->index_low = static_cast<uint32_t>(thread->ops);
    slot->group_low = static_cast<uint32_t>(thread->group);
    thread->member_slot = slot;
  }
  const bool receive = op.kind == CallKind::kRecv;
  ring::Member* place = &slot->members[slot->used];
  place->word =
      op.count | static_cast<uint64_t>(op.datatype) << 43 | static_cast<uint64_t>(receive) << 47 | ticket << 48;
  place->peer = op.root_or_peer;
  place->seq_low = static_cast<uint32_t>(seq);
  place->address = reinterpret_cast<uint64_t>(receive ? op.recv : op.send);
  *member = slot->used;
  StoreRelease(&slot->used, slot->used + 1);  // pairs with the reader, which takes `used` members
  if (!fits) PublishSlot(thread, fresh);
  return slot;
}

LOCKSTEP_COLD void StopAsTold() noexcept {
  Stop(ring::RecorderState::kStopped, "a stop was requested through the ring");
}

void SetEntering(ThreadState* thread, bool entering) noexcept {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread->entering = entering;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

// Reverts a call that NCCL refused or never saw, which has no place in the communicator's order. May be called twice.
LOCKSTEP_COLD void TakeBack(const ThreadState::Undo& undo) noexcept {
  CommEntry* entry = undo.comm->entry;
  if (undo.collective) {
    TakeBackIssued(entry, undo.issued, undo.other);
  } else {
    if (undo.counter != nullptr) Store(undo.counter, undo.issued);
    Store(&entry->p2p_issued, undo.other);
  }
}

}  // namespace

LOCKSTEP_COLD bool LeftTheCall(ThreadState* thread, const void* frame) noexcept {
  ErrnoKeeper keep;
  // On an alternate signal stack, a handler's frame address shows nothing about the interrupted call, to which the
  // handler may return.
  stack_t handler{};
  if (Sys(SYS_sigaltstack, nullptr, &handler) == 0 && (handler.ss_flags & SS_ONSTACK) != 0) return false;
  const InsideMark* mark = thread->inside;
  // The stack grows down. If a call comes from above the mark's frame, that frame is gone. If it comes from below, the
  // frame exists if its contents still match. The frame may also have been on another stack that has since been
  // unmapped.
  if (reinterpret_cast<uintptr_t>(frame) < reinterpret_cast<uintptr_t>(mark)) {
    InsideMark there{};
    if (ReadHostMemory(mark, &there, sizeof(there)) && there.thread == thread && there.self == mark) return false;
  }
  if (thread->entering) TakeBack(thread->undo);
  thread->entering = false;
  thread->member_slot = nullptr;
  // NCCL closes the group before it does the group's work, so after the jump no group is open.
  const auto call = static_cast<CallKind>(thread->cell->call);
  if (call == CallKind::kGroupEnd || call == CallKind::kGroupSimulateEnd) {
    t_local.group_depth = 0;
    t_local.in_group_call = GroupCall::kNone;
    thread->group = 0;
    Store(&thread->cell->group_depth, 0u);
  }
  StoreRelease(&thread->cell->call, uint16_t{0});
  Store(&thread->cell->ops, thread->ops);
  Store(&thread->cell->begun, thread->begun);
  LeaveCall(thread);
  return true;
}

ring::PeerEntry* FindPeer(const CommLocal* comm, int32_t peer) noexcept {
  const uint64_t key = ring::PeerKey(comm->index, peer);
  const uint32_t mask = g.map.capacities.peers - 1;
  auto at = static_cast<uint32_t>((key * 0x9e3779b97f4a7c15u) >> 40);
  const uint64_t created = comm->entry->created_ticks;
  for (uint32_t probe = 0; probe < 16; ++probe, ++at) {
    ring::PeerEntry* entry = &g.map.peers[at & mask];
    const uint64_t there = LoadAcquire(&entry->key);
    if (LOCKSTEP_LIKELY(there == key)) {
      if (LOCKSTEP_UNLIKELY(entry->created_ticks != created)) {  // the counts are of the slot's previous communicator
        Store(&entry->sends, 0u);
        Store(&entry->recvs, 0u);
        Store(&entry->signals, 0u);
        Store(&entry->waited, 0u);
        Store(&entry->last_send_ticks, 0u);
        Store(&entry->last_recv_ticks, 0u);
        StoreRelease(&entry->created_ticks, created);
      }
      return entry;
    }
    if (there == 0 && Swap<uint64_t>(&entry->key, 0, key)) {
      StoreRelease(&entry->created_ticks, created);
      return entry;
    }
    if (LoadAcquire(&entry->key) == key) return entry;
  }
  Store(&comm->entry->lost_peers, comm->entry->lost_peers + 1);
  return nullptr;
}

void JoinGroup(ThreadState* thread, CommLocal* comm) noexcept {
  // If another thread's group contains the communicator, that thread ended inside the group: only one thread at a time
  // may use a communicator.
  if (comm->in_group && comm->group_thread == thread->index) return;
  comm->in_group = true;
  comm->group_thread = thread->index;
  comm->group_init = false;
  comm->group_issued = comm->entry->issued_seq;
  comm->group_hash = comm->entry->signature_hash;
  comm->group_recent = comm->entry->recent_collectives;
  comm->group_recent_p2p = comm->entry->recent_p2p;
  comm->group_next = thread->group_comms;
  thread->group_comms = comm->index;
}

namespace {

// Records an operation that is captured into a CUDA graph; always returns true. The operation runs, and is numbered,
// when the graph is launched.
LOCKSTEP_COLD bool BeginCaptured(const Op& op, const CallSite& site, uint8_t reduction, uint64_t graph, uint64_t now,
                                 OpInFlight* flight) noexcept {
  ThreadState* thread = flight->thread;
  ring::ThreadCell* cell = thread->cell;
  flight->op = &op;
  flight->graph = graph;
  flight->reduction = reduction;
  flight->slot = nullptr;
  ShowCall(cell, op.kind, flight->comm->index, 0, now);
  if (flight->grouped && ring::IsPointToPoint(op.kind)) {
    flight->members = AddMember(thread, op, flight->comm->index, flight->stream, 0, 0, now, &flight->member,
                                ring::kMembersNoTicket | ring::kMembersCaptured);
  }
  if (flight->members == nullptr) {
    thread->member_slot = nullptr;
    const Slot slot = TakeSlot(thread);
    flight->slot = slot.op;
    flight->slot_number = slot.number;
    if (slot.op != nullptr) {
      OpSlot* record = slot.op;
      FillCall(thread, op.kind, site, thread->ops, now, record);
      record->datatype = Datatype(op.datatype);
      record->reduction = reduction;
      record->comm = static_cast<uint16_t>(flight->comm->index);
      record->root_or_peer = op.root_or_peer;
      record->count = op.count;
      record->stream = static_cast<uint16_t>(flight->stream);
      record->graph = graph != 0 ? graph : UINT64_MAX;
      record->send_address = reinterpret_cast<uint64_t>(op.send);
      record->recv_address = reinterpret_cast<uint64_t>(op.recv);
      PublishSlot(thread, slot);
    }
  }
  Store(&cell->ops, ++thread->ops);
  if (LOCKSTEP_UNLIKELY(flight->sampled != 0)) flight->sampled = Now() - flight->sampled;
  return true;
}

// Completes a record in the shared ring. Remembers a queued operation, so that EndGroup can set its final stage.
LOCKSTEP_COLD void EndOverflow(ThreadState* thread, uint64_t number, OpStage stage, int result, uint64_t now) noexcept {
  UpdateOverflow(number, Stage(stage), result, now);
  if (stage == OpStage::kQueued && thread->group_overflow_count < kGroupOverflow) {
    thread->group_overflow[thread->group_overflow_count++] = number;
  }
}

LOCKSTEP_COLD void EndCaptured(OpInFlight* flight, int result) noexcept {
  ThreadState* thread = flight->thread;
  const Op& op = *flight->op;
  const uint64_t now = Now();
  if (Accepted(result)) {
    AddCapturedOp(flight->graph,
                  {op.kind, Datatype(op.datatype), flight->reduction, op.root_or_peer, op.count, flight->comm,
                   flight->stream, static_cast<uint32_t>(thread->group), FindCallSite(op.caller)});
  }
  OpStage stage = flight->grouped ? OpStage::kQueued : OpStage::kCaptured;
  if (!Accepted(result)) stage = OpStage::kFailed;
  if (flight->members != nullptr) {
    if (!Accepted(result)) flight->members->flags = static_cast<uint8_t>(flight->members->flags | 1u << flight->member);
  } else if (thread->overflow) {
    EndOverflow(thread, flight->slot_number, stage, result, now);
  } else if (flight->slot != nullptr) {
    flight->slot->stage = Stage(stage);
    flight->slot->result = result;
    StoreRelease(&flight->slot->return_ticks, now);
  }
  ShowReturn(thread, now);
}

}  // namespace

bool BeginOp(const Op& op, OpInFlight* flight, const OpInFlight* shared) noexcept {
  if (LOCKSTEP_UNLIKELY(Load(g.stop_word) != 0)) {
    StopAsTold();
    return false;
  }
  const uint64_t now = Now();
  if (LOCKSTEP_UNLIKELY(now >= Load(&g.next_calibration))) {
    Calibrate(now);
    if (!Recording()) return false;
  }
  ThreadState* thread = t_local.state;
  EnterCall(thread, &flight->inside);
  flight->sampled = SampleNow(&thread->own.ops) ? now : 0;
  CommLocal* comm = FindComm(thread, op.comm);
  if (LOCKSTEP_UNLIKELY(comm == nullptr)) {
    Add(&g.map.header->dropped_records, 1);
    LeaveCall(thread);
    return false;
  }
  // A non-blocking communicator may be queried only after ncclCommGetAsyncError reported success. This also applies to
  // a communicator that the open group creates.
  if (LOCKSTEP_UNLIKELY(!comm->ready) && !comm->nonblocking && !comm->group_init) CommIsReady(comm);
  CommEntry* entry = comm->entry;
  uint32_t stream = FindStream(thread, op.stream, entry->device);
  const CallSite site = FindCallSite(op.caller);
  const uint8_t reduction = Reduction(comm, op.reduction);
  const bool grouped = t_local.group_depth > 0;
  const bool collective = ring::IsCollective(op.kind);
  flight->thread = thread;
  flight->comm = comm;
  flight->epoch = g.epoch;
  flight->stream = stream;
  flight->grouped = grouped;
  flight->collective = collective;
  flight->mark = flight->captured = false;
  flight->members = nullptr;

  uint64_t ticket = 0, graph = 0;
  const bool looks = (Marking() || Capturing()) && stream != kNone;
  if (LOCKSTEP_UNLIKELY(comm->nonblocking) && Marking() && stream != kNone)
    StoreRelease(&comm->async_begun, comm->async_begun + 1);
  if (LOCKSTEP_UNLIKELY(grouped)) {
    if (thread->group == 0) OpenGroup(thread);
    JoinGroup(thread, comm);
    ++thread->group_ops;
    if (LOCKSTEP_UNLIKELY(looks)) {
      const ThreadState::GroupStream* joined = InGroup(thread, stream);
      if (joined == nullptr) {
        const Use use = LookAtStream(thread, op.stream, stream, entry->device);
        flight->stream = stream = use.stream;
        if (stream != kNone) joined = JoinStream(thread, use, comm->nonblocking);
      }
      if (joined != nullptr) {
        flight->captured = joined->captured;
        graph = joined->graph;
        ticket = joined->ticket;
      }
    }
  } else if (LOCKSTEP_UNLIKELY(looks)) {
    const Use use = LookAtStream(thread, op.stream, stream, entry->device);
    flight->stream = stream = use.stream;
    flight->captured = use.capture == Capture::kYes;
    graph = use.graph;
    if (shared != nullptr) {
      ticket = shared->ticket;
    } else if (use.marks) {
      ticket = TakeTicket(thread, &g_tables.streams[stream], comm->nonblocking);
      flight->mark = ticket != 0;
    }
  }
  flight->ticket = ticket;
  if (LOCKSTEP_UNLIKELY(flight->captured)) return BeginCaptured(op, site, reduction, graph, now, flight);

  uint64_t seq, recent_guard;
  RecentOp* recent;
  ThreadState::Undo* undo = &thread->undo;
  undo->comm = comm;
  undo->collective = collective;
  if (LOCKSTEP_LIKELY(collective)) {
    const uint64_t before = entry->issued_seq;
    const uint64_t hash =
        Roll(entry->signature_hash, SignatureOf(op.kind, Datatype(op.datatype), reduction, op.root_or_peer, op.count));
    undo->issued = before;
    undo->other = entry->signature_hash;
    SetEntering(thread, true);
    seq = before + 1;
    PublishIssued(entry, before, seq, hash, now);
    const uint64_t n = entry->recent_collectives;
    StoreRelease(&entry->recent_collectives, n + 1);
    FenceRelease();
    recent = &entry->collectives[n % ring::kRecentCollectives];
    Store(&recent->guard, 0u);
    recent_guard = n + 1;
  } else {
    ring::PeerEntry* peer = FindPeer(comm, op.root_or_peer);
    undo->counter = peer != nullptr ? PeerCounter(peer, op.kind) : nullptr;
    undo->other = entry->p2p_issued;
    seq = 0;
    if (peer != nullptr) {
      const bool waits = op.kind == CallKind::kWaitSignal;
      undo->issued = *undo->counter;
      SetEntering(thread, true);
      seq = undo->issued + (waits ? op.count : 1);
      Store(undo->counter, seq);
      Store(waits || op.kind == CallKind::kRecv ? &peer->last_recv_ticks : &peer->last_send_ticks, now);
    } else {
      SetEntering(thread, true);
    }
    Store(&entry->p2p_issued, entry->p2p_issued + 1);
    const uint64_t n = entry->recent_p2p;
    StoreRelease(&entry->recent_p2p, n + 1);
    FenceRelease();
    recent = &entry->p2p[n % ring::kRecentP2p];
    Store(&recent->guard, 0u);
    recent_guard = n + 1;
  }
  FenceRelease();
  flight->recent = recent;
  recent->kind = static_cast<uint16_t>(op.kind);
  recent->stage = Stage(OpStage::kEntered);
  recent->datatype = Datatype(op.datatype);
  recent->reduction = reduction;
  recent->result = 0;
  recent->stream = static_cast<uint16_t>(stream);
  recent->root_or_peer = op.root_or_peer;
  recent->caller_object = site.object;
  recent->count = op.count;
  recent->seq = seq;
  recent->ticket_low = static_cast<uint32_t>(ticket);
  recent->caller_low = static_cast<uint32_t>(site.offset);
  recent->enter_ticks = now;
  recent->return_ticks = 0;
  StoreRelease(&recent->guard, recent_guard);  // pairs with the reader, which takes the record only with this guard

  ring::ThreadCell* cell = thread->cell;
  ShowCall(cell, op.kind, comm->index, seq, now);

  if (grouped && ring::IsPointToPoint(op.kind)) {
    flight->members = AddMember(thread, op, comm->index, stream, seq, ticket, now, &flight->member,
                                ticket == 0 ? ring::kMembersNoTicket : 0);
  }
  if (flight->members == nullptr) {
    thread->member_slot = nullptr;
    const Slot slot = TakeSlot(thread);
    flight->slot = slot.op;
    flight->slot_number = slot.number;
    if (LOCKSTEP_LIKELY(slot.op != nullptr)) {
      OpSlot* record = slot.op;
      record->type = static_cast<uint8_t>(ring::SlotType::kOp);
      record->stage = Stage(OpStage::kEntered);
      record->datatype = Datatype(op.datatype);
      record->reduction = reduction;
      record->kind = static_cast<uint16_t>(op.kind);
      record->comm = static_cast<uint16_t>(comm->index);
      record->root_or_peer = op.root_or_peer;
      record->caller_object = site.object;
      record->count = op.count;
      record->seq = seq;
      record->index_low = static_cast<uint32_t>(thread->ops);
      record->group_low = static_cast<uint32_t>(thread->group);
      record->stream = static_cast<uint16_t>(stream);
      record->thread = static_cast<uint16_t>(thread->index);
      record->result = 0;
      record->ticket = ticket;
      record->graph = graph;
      record->enter_ticks = now;
      record->return_ticks = 0;
      record->caller = site.offset;
      record->send_address = reinterpret_cast<uint64_t>(op.send);
      record->recv_address = reinterpret_cast<uint64_t>(op.recv);
      PublishSlot(thread, slot);
    }
  }
  Store(&cell->ops, ++thread->ops);
  if (LOCKSTEP_UNLIKELY(g.profiler_finds)) profiler::NotePending(comm, op, seq);
  if (LOCKSTEP_UNLIKELY(flight->mark)) StartMark(&g_tables.streams[stream], ticket, now);
  SetEntering(thread, false);
  if (LOCKSTEP_UNLIKELY(flight->sampled != 0)) flight->sampled = Now() - flight->sampled;
  return true;
}

void EndOp(OpInFlight* flight, int result) noexcept {
  // The program forked inside the call. The child has neither the ring nor this thread's state.
  if (LOCKSTEP_UNLIKELY(!Recording() || flight->epoch != g.epoch)) return;
  if (LOCKSTEP_UNLIKELY(flight->captured)) {
    EndCaptured(flight, result);
    return;
  }
  ThreadState* thread = flight->thread;
  RecentOp* recent = flight->recent;
  OpStage stage;
  uint64_t now;
  const uint64_t sampled = flight->sampled;
  const uint64_t returned = LOCKSTEP_UNLIKELY(sampled != 0) ? Now() : 0;
  if (LOCKSTEP_UNLIKELY(!Accepted(result))) {
    TakeBack(thread->undo);
    // If nothing else of the communicator was ever recorded, the program passed a wrong handle, so the entry ends.
    const CommEntry* entry = flight->comm->entry;
    if (entry->origin == 0 && entry->issued_seq == 0 && entry->p2p_issued == 0) {
      CommEnded(flight->comm, ring::CommState::kInitFailed);
    }
    stage = OpStage::kFailed;
    now = Now();
  } else if (flight->grouped) {
    stage = OpStage::kQueued;
    now = recent->enter_ticks;  // the call only queues, so the clock need not be read again
  } else {
    stage = OpStage::kLaunched;
    // With kNcclInProgress, NCCL's own thread is still queueing the operation; ncclCommGetAsyncError reports the end.
    if (flight->collective && LOCKSTEP_LIKELY(result == kNcclSuccess))
      Store(&flight->comm->entry->launched_seq, thread->undo.issued + 1);
    now = Now();
  }
  if (LOCKSTEP_UNLIKELY(flight->mark)) {
    StreamLocal* stream = &g_tables.streams[flight->stream];
    if (LOCKSTEP_UNLIKELY(flight->comm->nonblocking) && Accepted(result)) {
      SettleEarlier(flight->comm);  // NCCL accepts the call only when earlier ones are queued
      if (result == kNcclInProgress) HoldMarks(flight->comm, stream);
    }
    EndMark(stream, flight->ticket);
  }
  if (LOCKSTEP_UNLIKELY(flight->comm->nonblocking) && !flight->grouped)
    StoreRelease(&flight->comm->async_returned, flight->comm->async_begun);
  Store(&recent->result, result);
  Store(&recent->stage, Stage(stage));
  StoreRelease(&recent->return_ticks, now);
  if (LOCKSTEP_LIKELY(flight->members == nullptr)) {
    if (LOCKSTEP_LIKELY(!thread->overflow)) {
      FinishSlot(flight->slot, Stage(stage), result, now);
    } else {
      EndOverflow(thread, flight->slot_number, stage, result, now);
    }
  } else if (!Accepted(result)) {
    flight->members->flags = static_cast<uint8_t>(flight->members->flags | 1u << flight->member);
  }
  ShowReturn(thread, now);
  if (LOCKSTEP_UNLIKELY(sampled != 0)) {
    AddOwnTime(&thread->own.ops, sampled + (Now() - returned));
    JudgeOwnTime(thread);
  }
}

bool BeginCall(CallKind kind, const CommLocal* comm, const CallArguments& arguments, const void* caller,
               CallInFlight* flight) noexcept {
  if (Load(g.stop_word) != 0) {
    StopAsTold();
    return false;
  }
  const uint64_t now = Now();
  if (now >= Load(&g.next_calibration)) {
    Calibrate(now);
    if (!Recording()) return false;
  }
  ThreadState* thread = Thread();
  if (thread == nullptr) return false;
  EnterCall(thread, &flight->inside);
  thread->member_slot = nullptr;
  const CallSite site = FindCallSite(caller);
  const Slot slot = TakeSlot(thread);
  flight->thread = thread;
  flight->slot = slot.op;
  flight->slot_number = slot.number;
  flight->epoch = g.epoch;
  if (slot.op != nullptr) {
    OpSlot* record = slot.op;
    FillCall(thread, kind, site, thread->ops, now, record);
    if (comm != nullptr) record->comm = static_cast<uint16_t>(comm->index);
    record->root_or_peer = arguments.root_or_peer;
    record->count = arguments.count;
    record->send_address = reinterpret_cast<uint64_t>(arguments.address);
    PublishSlot(thread, slot);
  }
  Store(&thread->cell->ops, ++thread->ops);
  ShowCall(thread->cell, kind, comm != nullptr ? comm->index : ring::kNoIndex16, 0, now);
  return true;
}

void EndCall(CallInFlight* flight, int result, const CommLocal* comm) noexcept {
  if (!Recording() || flight->epoch != g.epoch) return;
  ThreadState* thread = flight->thread;
  const uint64_t now = Now();
  const uint8_t stage = Stage(Accepted(result) ? OpStage::kLaunched : OpStage::kFailed);
  if (flight->slot != nullptr && !thread->overflow) {
    if (comm != nullptr) flight->slot->comm = static_cast<uint16_t>(comm->index);
    FinishSlot(flight->slot, stage, result, now);
  } else if (thread->overflow) {
    UpdateOverflow(flight->slot_number, stage, result, now);
  }
  ShowReturn(thread, now);
}

}  // namespace lockstep::recorder
