// One recorded call: what is written before NCCL is called, and after it returns. Nothing here blocks, allocates or
// fails.
#pragma once

#include "recorder/core/comms.h"
#include "recorder/core/process.h"

namespace lockstep::recorder {

// A collective, a send or receive, or a one-sided call, as the program passed it. For a wait for a peer's signals,
// count is the number of signals.
struct Op {
  ring::CallKind kind;
  int32_t datatype;      // -1 if there is none
  int32_t reduction;     // ncclRedOp_t, -1 if there is none
  int32_t root_or_peer;  // -1 if there is none
  uint64_t count;
  const void* send;
  const void* recv;
  const void* comm;
  const void* stream;
  const void* caller;
};

// State between BeginOp and EndOp, on the caller's stack.
struct OpInFlight {
  InsideMark inside;
  ThreadState* thread;
  CommLocal* comm;
  ring::OpSlot* slot;  // null for a member, or if the overflow slot was in use
  ring::MemberSlot* members;
  ring::RecentOp* recent;
  uint64_t slot_number;
  uint64_t ticket;
  uint64_t sampled;  // if the call is measured: ticks at its beginning; otherwise 0
  uint32_t stream;
  uint32_t member;
  uint32_t epoch;
  bool collective, grouped, mark, captured;
  // Only for a captured operation.
  uint8_t reduction;
  const Op* op;
  uint64_t graph;
};

// Writes the operation and the communicator's progress. Returns false if nothing is recorded; EndOp must then not be
// called. `shared` is an ended operation of the same call whose GPU markers are also this operation's.
bool BeginOp(const Op& op, OpInFlight* flight, const OpInFlight* shared = nullptr) noexcept;
// Called when the call has returned `result`. Records the result, or reverts the progress if NCCL refused the call.
// Writes the GPU marker.
void EndOp(OpInFlight* flight, int result) noexcept;

// Returns the peer's counter that a call of this kind increments; a wait adds the number of its signals.
inline uint64_t* PeerCounter(ring::PeerEntry* peer, ring::CallKind kind) noexcept {
  switch (kind) {
    case ring::CallKind::kSend: return &peer->sends;
    case ring::CallKind::kRecv: return &peer->recvs;
    case ring::CallKind::kWaitSignal: return &peer->waited;
    default: return &peer->signals;
  }
}

// Called before and after the outermost group end. `simulated` means ncclGroupSimulateEnd. `mark` is on the caller's
// stack until EndGroup. BeginGroupEnd returns false if nothing is recorded.
bool BeginGroupEnd(ring::CallKind kind, InsideMark* mark) noexcept;
void EndGroup(int result, bool simulated) noexcept;
// Called for GroupStart at depth 0.
void NoteGroupStart(const void* caller) noexcept;
// Called when the depth has changed.
void NoteGroupDepth() noexcept;
// Returns the counts of sends and receives with one peer, which are created at the first use. Returns null, and counts
// this, if the table is full.
ring::PeerEntry* FindPeer(const CommLocal* comm, int32_t peer) noexcept;
// Adds `comm` to the group's list of communicators, at most once for each group.
void JoinGroup(ThreadState* thread, CommLocal* comm) noexcept;

// Any other recorded call: writes one record and the thread's cell.
struct CallInFlight {
  InsideMark inside;
  ThreadState* thread;
  ring::OpSlot* slot;
  uint64_t slot_number;
  uint32_t epoch;
};
struct CallArguments {
  uint64_t count = 0;
  int32_t root_or_peer = -1;
  const void* address = nullptr;
};
bool BeginCall(ring::CallKind kind, const CommLocal* comm, const CallArguments& arguments, const void* caller,
               CallInFlight* flight) noexcept;
// `comm` may be known only after the call.
void EndCall(CallInFlight* flight, int result, const CommLocal* comm) noexcept;

// Returns whether a call from `caller` on this thread is to be recorded.
inline bool ShouldRecord(const void* caller) noexcept {
  if (LOCKSTEP_UNLIKELY(!Recording()) || FromNccl(caller)) return false;
  ThreadState* thread = Thread();
  if (LOCKSTEP_UNLIKELY(thread == nullptr)) return false;
  return LOCKSTEP_LIKELY(thread->inside == nullptr) || LeftTheCall(thread, __builtin_frame_address(0));
}

}  // namespace lockstep::recorder
