// Reserves and publishes slots of the event rings. A thread's own ring needs no atomic read-modify-write operation.
#pragma once

#include "recorder/core/process.h"

namespace lockstep::recorder {

struct Slot {
  ring::OpSlot* op;  // null if the overflow ring's slot was in use; the drop is counted
  uint64_t number;
};

// Claims a slot of the shared ring with compare-and-swap. If a writer is delayed for a whole round of the ring, it
// keeps its slot, and the newer record is dropped and counted.
Slot TakeOverflow() noexcept;
void PublishOverflow(const Slot& slot) noexcept;
// Returns the record with this number so that its own writer can change it; null if its slot was reused.
ring::OpSlot* ClaimOverflow(uint64_t number) noexcept;
void ReleaseOverflow(ring::OpSlot* op, uint64_t number) noexcept;
void UpdateOverflow(uint64_t number, uint8_t stage, int result, uint64_t return_ticks) noexcept;

// Records that a call has returned. Readers trust stage and result once `return_ticks` is set.
inline void FinishSlot(ring::OpSlot* op, uint8_t stage, int result, uint64_t return_ticks) noexcept {
  Store(&op->result, result);
  Store(&op->stage, stage);
  StoreRelease(&op->return_ticks, return_ticks);
}

inline Slot TakeSlot(ThreadState* thread) noexcept {
  if (LOCKSTEP_UNLIKELY(thread->slots == nullptr)) {
    if (!thread->overflow) AssignRing(thread);
    if (thread->overflow) return TakeOverflow();
  }
  const uint64_t number = thread->begun++;
  Store(&thread->cell->begun, number + 1);
  FenceRelease();  // partner: the reader reads `begun` after the slots and drops slots that are being overwritten
  return {&thread->slots[number & thread->mask], number};
}

inline void PublishSlot(ThreadState* thread, const Slot& slot) noexcept {
  if (LOCKSTEP_LIKELY(!thread->overflow)) {
    StoreRelease(&slot.op->guard, slot.number + 1);  // partner: the reader accepts a slot only with this guard
  } else {
    PublishOverflow(slot);
  }
}

}  // namespace lockstep::recorder
