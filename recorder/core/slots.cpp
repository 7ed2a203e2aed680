#include "recorder/core/slots.h"

namespace lockstep::recorder {

LOCKSTEP_COLD Slot TakeOverflow() noexcept {
  const uint64_t number = Add(&g.map.header->overflow_begun, 1);
  ring::OpSlot* op = &g.map.overflow[number & (g.map.capacities.overflow_slots - 1)];
  const uint64_t guard = LoadAcquire(&op->guard);
  // If the guard is odd, a writer is still in the slot. If it is larger than expected, this thread was delayed for a
  // whole round of the ring.
  if ((guard & 1) != 0 || guard > (number + 1) << 1 || !Swap(&op->guard, guard, (number + 1) << 1 | 1)) {
    Add(&g.map.header->dropped_records, 1);
    return {nullptr, number};
  }
  return {op, number};
}

void PublishOverflow(const Slot& slot) noexcept { StoreRelease(&slot.op->guard, (slot.number + 1) << 1); }

ring::OpSlot* ClaimOverflow(uint64_t number) noexcept {
  ring::OpSlot* op = &g.map.overflow[number & (g.map.capacities.overflow_slots - 1)];
  const uint64_t guard = (number + 1) << 1;
  return Swap(&op->guard, guard, guard | 1) ? op : nullptr;
}

void ReleaseOverflow(ring::OpSlot* op, uint64_t number) noexcept { StoreRelease(&op->guard, (number + 1) << 1); }

void UpdateOverflow(uint64_t number, uint8_t stage, int result, uint64_t return_ticks) noexcept {
  ring::OpSlot* op = ClaimOverflow(number);
  if (op == nullptr) return;
  FinishSlot(op, stage, result, return_ticks);
  ReleaseOverflow(op, number);
}

}  // namespace lockstep::recorder
