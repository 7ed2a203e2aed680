// NCCL's names for functions and datatypes.
#include <string.h>

#include "recorder/core/profiler_events.h"

namespace lockstep::recorder::profiler {

using ring::CallKind;

CallKind KindOf(const char* func) noexcept {
  static const struct {
    const char* name;
    CallKind kind;
  } kNames[] = {{"AllReduce", CallKind::kAllReduce},
                {"AllGather", CallKind::kAllGather},
                {"ReduceScatter", CallKind::kReduceScatter},
                {"Broadcast", CallKind::kBroadcast},
                {"Bcast", CallKind::kBroadcast},
                {"Reduce", CallKind::kReduce},
                {"AlltoAll", CallKind::kAlltoAll},
                {"AllToAll", CallKind::kAlltoAll},
                {"Gather", CallKind::kGather},
                {"Scatter", CallKind::kScatter},
                {"Send", CallKind::kSend},
                {"Recv", CallKind::kRecv}};
  for (const auto& known : kNames) {
    if (func != nullptr && strcmp(func, known.name) == 0) return known.kind;
  }
  return CallKind::kOtherCollective;
}

int DatatypeOf(const char* name) noexcept {
  static const char* const kNames[] = {"ncclInt8",    "ncclUint8",    "ncclInt32",      "ncclUint32",
                                       "ncclInt64",   "ncclUint64",   "ncclFloat16",    "ncclFloat32",
                                       "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
  for (int i = 0; name != nullptr && i < static_cast<int>(sizeof(kNames) / sizeof(kNames[0])); ++i) {
    if (strcmp(name, kNames[i]) == 0) return i;
  }
  return -1;
}

unsigned BytesOf(int datatype) noexcept {
  static const uint8_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return datatype >= 0 && datatype < static_cast<int>(sizeof(kBytes)) ? kBytes[datatype] : 0;
}

// For version 1 of the interface, which reports functions and datatypes as the numbers that NCCL used then.
CallKind KindOf(uint8_t func) noexcept {
  static const CallKind kKinds[] = {CallKind::kBroadcast,     CallKind::kReduce,    CallKind::kAllGather,
                                    CallKind::kReduceScatter, CallKind::kAllReduce, CallKind::kOtherCollective,
                                    CallKind::kSend,          CallKind::kRecv};
  return func < sizeof(kKinds) / sizeof(kKinds[0]) ? kKinds[func] : CallKind::kOtherCollective;
}
int DatatypeOf(uint8_t datatype) noexcept { return datatype; }

}  // namespace lockstep::recorder::profiler
