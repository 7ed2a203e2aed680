#include "recorder/core/gpu_marks.h"
#include "recorder/core/graphs.h"
#include "recorder/core/ops.h"
#include "recorder/core/real.h"
#include "recorder/core/slots.h"

namespace lockstep::recorder {
namespace {

using ring::CallKind;
using ring::OpStage;

uint8_t Value(OpStage stage) noexcept { return static_cast<uint8_t>(stage); }

// Changes the stage of a queued operation to `now`. An operation that failed individually keeps its stage.
void Settle(uint8_t* stage, OpStage now) noexcept {
  if (*stage == Value(OpStage::kQueued) || *stage == Value(OpStage::kEntered)) *stage = Value(now);
}

bool WasCaptured(const ThreadState* thread, uint32_t stream) noexcept {
  for (uint32_t i = 0; i < thread->group_stream_count; ++i) {
    if (thread->group_streams[i].stream == stream) return thread->group_streams[i].captured;
  }
  return false;
}

OpStage StageOf(const ThreadState* thread, uint16_t stream, OpStage stage) noexcept {
  return stage == OpStage::kLaunched && WasCaptured(thread, stream) ? OpStage::kCaptured : stage;
}

// Reverts the peer's counts, because an operation that the group dropped never happened.
void TakeBackPeer(uint32_t comm, int32_t rank, CallKind kind, uint64_t amount) noexcept {
  if (comm >= g.map.capacities.comms) return;
  const uint64_t key = ring::PeerKey(comm, rank);
  auto at = static_cast<uint32_t>((key * 0x9e3779b97f4a7c15u) >> 40);
  for (uint32_t probe = 0; probe < 16; ++probe, ++at) {
    ring::PeerEntry* peer = &g.map.peers[at & (g.map.capacities.peers - 1)];
    if (Load(&peer->key) != key) continue;
    uint64_t* counter = PeerCounter(peer, kind);
    if (*counter >= amount) Store(counter, *counter - amount);
    break;
  }
  ring::CommEntry* entry = &g.map.comms[comm];
  if (entry->p2p_issued > 0) Store(&entry->p2p_issued, entry->p2p_issued - 1);
}

bool IsOperation(CallKind kind) noexcept {
  return ring::IsCollective(kind) || ring::IsPointToPoint(kind) || ring::IsOneSided(kind);
}

void TakeBackMembers(const ring::MemberSlot* slot) noexcept {
  if ((slot->flags & ring::kMembersCaptured) != 0) return;
  for (uint32_t i = 0; i < slot->used && i < ring::kMembersPerSlot; ++i) {
    if ((slot->flags & 1u << i) != 0) continue;  // the member was reverted when its call failed
    const bool receive = (slot->members[i].word >> 47 & 1) != 0;
    TakeBackPeer(slot->comm, slot->members[i].peer, receive ? CallKind::kRecv : CallKind::kSend, 1);
  }
}

void TakeBackOp(const ring::OpSlot* slot) noexcept {
  const auto kind = static_cast<CallKind>(slot->kind);
  if (ring::IsCollective(kind) || slot->stage == Value(OpStage::kFailed) || slot->graph != 0) return;
  TakeBackPeer(slot->comm, slot->root_or_peer, kind, kind == CallKind::kWaitSignal ? slot->count : 1);
}

void SettleSlots(ThreadState* thread, OpStage stage, bool dropped) noexcept {
  if (thread->slots == nullptr) {
    for (uint32_t i = 0; i < thread->group_overflow_count; ++i) {
      const uint64_t number = thread->group_overflow[i];
      ring::OpSlot* slot = ClaimOverflow(number);
      if (slot == nullptr) continue;  // the slot now contains another thread's record
      if (dropped) TakeBackOp(slot);
      FinishSlot(slot, Value(StageOf(thread, slot->stream, stage)), 0, Now());
      ReleaseOverflow(slot, number);
    }
    return;
  }
  uint64_t first = thread->group_header + 1;
  if (thread->begun - first > thread->mask) first = thread->begun - thread->mask - 1;
  for (uint64_t n = first; n < thread->begun; ++n) {
    ring::OpSlot* slot = &thread->slots[n & thread->mask];
    if (slot->type == static_cast<uint8_t>(ring::SlotType::kMembers)) {
      auto* members = reinterpret_cast<ring::MemberSlot*>(slot);
      if (dropped) TakeBackMembers(members);
      Settle(&members->stage, StageOf(thread, members->stream, stage));
    } else if (slot->type == static_cast<uint8_t>(ring::SlotType::kOp) &&
               IsOperation(static_cast<CallKind>(slot->kind))) {
      if (dropped) TakeBackOp(slot);
      Settle(&slot->stage, StageOf(thread, slot->stream, stage));
    }
  }
}

template <uint32_t kSize>
void SettleRecent(const ThreadState* thread, ring::RecentOp (&ops)[kSize], uint64_t from, uint64_t to,
                  OpStage stage) noexcept {
  if (to - from > kSize) from = to - kSize;
  for (uint64_t n = from; n < to; ++n) {
    ring::RecentOp* op = &ops[n % kSize];
    Settle(&op->stage, StageOf(thread, op->stream, stage));
  }
}

void SettleComm(ThreadState* thread, CommLocal* comm, OpStage stage, bool dropped, int result) noexcept {
  ring::CommEntry* entry = comm->entry;
  if (dropped) {
    TakeBackIssued(entry, comm->group_issued, comm->group_hash);
  } else if (result == kNcclSuccess) {  // otherwise NCCL's own thread is still queueing the operations
    Store(&entry->launched_seq, entry->issued_seq);
  }
  SettleRecent(thread, entry->collectives, comm->group_recent, entry->recent_collectives, stage);
  SettleRecent(thread, entry->p2p, comm->group_recent_p2p, entry->recent_p2p, stage);
}

void EndMarks(ThreadState* thread, int result) noexcept {
  for (uint32_t index = thread->group_comms; index != kNone; index = g_tables.comms[index].group_next) {
    CommLocal* comm = &g_tables.comms[index];
    if (!comm->nonblocking || comm->group_init) continue;
    if (Accepted(result)) SettleEarlier(comm);
    for (uint32_t i = 0; result == kNcclInProgress && i < thread->group_stream_count; ++i) {
      if (thread->group_streams[i].mark) HoldMarks(comm, &g_tables.streams[thread->group_streams[i].stream]);
    }
    StoreRelease(&comm->async_returned, comm->async_begun);
  }
  // If nothing was launched, the marker completes the ticket at once.
  for (uint32_t i = 0; i < thread->group_stream_count; ++i) {
    const ThreadState::GroupStream& use = thread->group_streams[i];
    if (use.mark) EndMark(&g_tables.streams[use.stream], use.ticket);
  }
}

}  // namespace

void NoteGroupStart(const void* caller) noexcept {
  ThreadState* thread = Thread();
  if (thread == nullptr) return;
  thread->group = 0;
  thread->group_ops = 0;
  thread->group_caller = caller;
  thread->group_enter = Now();
  LeaveGroup(thread);
  thread->group_stream_count = 0;
  thread->group_overflow_count = 0;
  thread->member_slot = nullptr;
  Store(&thread->cell->group_since_ticks, thread->group_enter);
}

void NoteGroupDepth() noexcept {
  ThreadState* thread = Thread();
  if (thread == nullptr) return;
  Store(&thread->cell->group_depth, t_local.group_depth > 0 ? t_local.group_depth : 0);
}

bool BeginGroupEnd(CallKind kind, InsideMark* mark) noexcept {
  ThreadState* thread = Thread();
  if (thread == nullptr) return false;
  EnterCall(thread, mark);
  thread->group_sampled = SampleNow(&thread->own.groups) ? Now() : 0;
  ShowCall(thread->cell, kind, thread->group_comms != kNone ? thread->group_comms : ring::kNoIndex16, thread->group,
           Now());
  if (kind == CallKind::kGroupEnd) {
    for (uint32_t i = 0; i < thread->group_stream_count; ++i) {
      const ThreadState::GroupStream& use = thread->group_streams[i];
      if (use.mark) StartMark(&g_tables.streams[use.stream], use.ticket, Now());
    }
  }
  if (LOCKSTEP_UNLIKELY(thread->group_sampled != 0)) thread->group_sampled = Now() - thread->group_sampled;
  return true;
}

void EndGroup(int result, bool simulated) noexcept {
  if (!Recording()) return;
  ThreadState* thread = Thread();
  if (thread == nullptr) return;
  const uint64_t returned = LOCKSTEP_UNLIKELY(thread->group_sampled != 0) ? Now() : 0;
  // If a communicator is non-blocking, NCCL forgets that the group is a simulation, and launches it.
  for (uint32_t index = thread->group_comms; simulated && index != kNone; index = g_tables.comms[index].group_next)
    simulated = !g_tables.comms[index].nonblocking;
  const bool dropped = simulated || !Accepted(result);
  OpStage stage = OpStage::kLaunched;
  if (!Accepted(result)) {
    stage = OpStage::kFailed;
  } else if (simulated) {
    stage = OpStage::kSimulated;
  }
  EndMarks(thread, result);
  for (uint32_t i = 0; dropped && i < thread->group_stream_count; ++i) {
    if (thread->group_streams[i].captured) SpoilCapture(thread->group_streams[i].graph);
  }
  const uint64_t now = Now();
  if (thread->group != 0) {
    SettleSlots(thread, stage, dropped);
    if (thread->slots != nullptr && thread->begun - thread->group_header <= thread->mask + 1) {
      ring::OpSlot* header = &thread->slots[thread->group_header & thread->mask];
      Store(&header->count, thread->group_ops);
      FinishSlot(header, Value(stage), result, now);
    } else if (thread->slots == nullptr) {
      ring::OpSlot* header = ClaimOverflow(thread->group_header);
      if (header != nullptr) {
        Store(&header->count, thread->group_ops);
        FinishSlot(header, Value(stage), result, now);
        ReleaseOverflow(header, thread->group_header);
      }
    }
  }
  for (uint32_t index = thread->group_comms; index != kNone;) {
    CommLocal* comm = &g_tables.comms[index];
    index = comm->group_next;
    comm->in_group = false;
    comm->group_next = kNone;
    if (comm->group_init) {
      comm->group_init = false;
      if (!Accepted(result)) {
        CommEnded(comm, ring::CommState::kInitFailed);
      } else if (result == kNcclSuccess && BindStored(comm) && !comm->nonblocking) {
        CommIsReady(comm);
      }
    } else {
      SettleComm(thread, comm, stage, dropped, result);
    }
  }
  thread->group_comms = kNone;
  thread->group = 0;
  thread->group_stream_count = 0;
  thread->group_overflow_count = 0;
  thread->member_slot = nullptr;
  ShowReturn(thread, now);
  if (LOCKSTEP_UNLIKELY(returned != 0)) AddOwnTime(&thread->own.groups, thread->group_sampled + (Now() - returned));
}

}  // namespace lockstep::recorder
