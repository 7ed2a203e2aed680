// Slots of the event rings: taking one, publishing it. The thread's own ring needs no atomic read-modify-write.
#ifndef LOCKSTEP_RECORDER_SLOTS_H_
#define LOCKSTEP_RECORDER_SLOTS_H_

#include "recorder/process.h"

namespace lockstep::recorder {

struct Slot {
  ring::OpSlot* op;  // null: the overflow ring's slot was busy; the drop is counted
  uint64_t number;
};

// The shared ring: a slot is claimed by compare-and-swap, so that a writer that was held up for a whole lap keeps its
// slot and the newcomer's record is dropped and counted.
Slot TakeOverflow() noexcept;
void PublishOverflow(const Slot& slot) noexcept;
void UpdateOverflow(uint64_t number, uint8_t stage, int result, uint64_t return_ticks) noexcept;

inline Slot TakeSlot(ThreadState* thread) noexcept {
  if (LOCKSTEP_UNLIKELY(thread->slots == nullptr)) {
    if (!thread->overflow) AssignRing(thread);
    if (thread->overflow) return TakeOverflow();
  }
  const uint64_t number = thread->begun++;
  Store(&thread->cell->begun, number + 1);
  FenceRelease();  // partner: the reader reads `begun` after the slots and drops what is being overwritten
  return {&thread->slots[number & thread->mask], number};
}

inline void PublishSlot(ThreadState* thread, const Slot& slot) noexcept {
  if (LOCKSTEP_LIKELY(!thread->overflow)) {
    StoreRelease(&slot.op->guard, slot.number + 1);  // partner: the reader takes a slot only with this guard
  } else {
    PublishOverflow(slot);
  }
}

// Everything "not applicable" but the guard.
inline void FillEmpty(ring::OpSlot* op) noexcept {
  const uint64_t guard = op->guard;
  *op = ring::OpSlot{};
  op->guard = guard;
  op->datatype = ring::kNoDatatype;
  op->reduction = ring::kNoReduction;
  op->comm = ring::kNoIndex16;
  op->root_or_peer = -1;
  op->stream = ring::kNoIndex16;
}

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_SLOTS_H_
