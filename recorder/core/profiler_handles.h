// The numbers that NCCL gets as handles. Bits 63 to 60 are the type, and 59 to 54 a stamp of this process, so that
// another process's handle (PXN) is rejected. The rest depends on the type. An entry's handle contains the entry's
// number and the low bits of its guard, so it becomes stale when the entry is reused.
#pragma once

#include <stdint.h>

#include "recorder/core/process.h"
#include "recorder/core/profiler_events.h"

namespace lockstep::recorder::profiler {

enum class Type : uint8_t {
  kNone = 0,
  kContext = 1,
  kApi = 2,
  kGroupApi = 3,
  kTask = 4,
  kKernelCh = 5,
  kProxyOp = 6,
  kProxyStep = 7
};
inline constexpr uint64_t kLastType = 7;

inline uint64_t ProcessStamp() noexcept {
  return Mix(g.map.header->created_ticks ^ static_cast<uint64_t>(g.map.header->pid)) & 63;
}

inline Handle Make(Type type, uint64_t rest) noexcept {
  return static_cast<uint64_t>(type) << 60 | ProcessStamp() << 54 | rest;
}

// Returns kNone if the value is not a handle of this process.
inline Type TypeOf(Handle handle) noexcept {
  const uint64_t type = handle >> 60;
  if (type > kLastType || (handle >> 54 & 63) != ProcessStamp()) return Type::kNone;
  return static_cast<Type>(type);
}

// Entries: 16 bits of number, 16 of stamp, then 22 bits for a step's number or a channel.
inline constexpr uint32_t kStepMask = (1u << 22) - 1;
inline uint32_t StampOf(uint32_t guard) noexcept { return guard >> 1 & 0xffff; }
inline Handle MakeEntry(Type type, uint32_t index, uint32_t guard) noexcept {
  return Make(type, uint64_t{index & 0xffff} << 38 | uint64_t{StampOf(guard)} << 22);
}
inline uint32_t EntryIndex(Handle handle) noexcept { return static_cast<uint32_t>(handle >> 38) & 0xffff; }
inline uint32_t EntryStamp(Handle handle) noexcept { return static_cast<uint32_t>(handle >> 22) & 0xffff; }
inline uint32_t StepNumber(Handle handle) noexcept { return static_cast<uint32_t>(handle) & kStepMask; }
inline uint32_t EntryChannel(Handle handle) noexcept { return static_cast<uint32_t>(handle) & 63; }
inline Handle Retyped(Handle parent, Type type, uint32_t low) noexcept {
  return (parent & ~(uint64_t{15} << 60) & ~uint64_t{kStepMask}) | static_cast<uint64_t>(type) << 60 | low;
}
inline Handle MakeStep(Handle proxy_op, uint32_t number) noexcept {
  return Retyped(proxy_op, Type::kProxyStep, number);
}
inline Handle MakeKernel(Handle task, uint32_t channel) noexcept { return Retyped(task, Type::kKernelCh, channel); }

// A CPU call: 1 bit captured, 6 bits kind, 8 communicator, 6 its use, 33 sequence number. The handle contains all
// values, because replays name the calls of a captured graph as parents long after these ended.
inline constexpr uint64_t kApiSeqMask = (uint64_t{1} << 33) - 1;
inline uint64_t UseOf(const ring::CommEntry& entry) noexcept { return Mix(entry.created_ticks) & 63; }
inline Handle MakeApi(bool captured, ring::CallKind kind, uint32_t comm, uint64_t use, uint64_t seq) noexcept {
  return Make(Type::kApi, uint64_t{captured} << 53 | (static_cast<uint64_t>(kind) & 63) << 47 |
                              uint64_t{comm & 255} << 39 | use << 33 | (seq & kApiSeqMask));
}

}  // namespace lockstep::recorder::profiler
