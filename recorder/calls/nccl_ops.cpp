// NCCL's collectives, sends and receives, groups.
#include "recorder/abi/nccl.h"
#include "recorder/core/ops.h"
#include "recorder/core/real.h"

using lockstep::recorder::BeginOp;
using lockstep::recorder::CudaStream;
using lockstep::recorder::EndOp;
using lockstep::recorder::kNcclInvalidUsage;
using lockstep::recorder::NcclComm;
using lockstep::recorder::Op;
using lockstep::recorder::OpInFlight;
using lockstep::recorder::RealFunction;
using lockstep::recorder::RealNccl;
using lockstep::recorder::ShouldRecord;
using lockstep::ring::CallKind;

namespace {

// Forwards `arguments`, recording `op` around the call.
template <typename... Parameters, typename... Arguments>
inline __attribute__((always_inline)) int Record(void* real, const Op& op, int (*)(Parameters...),
                                                 Arguments... arguments) noexcept {
  const auto forward = reinterpret_cast<int (*)(Parameters...)>(real);
  if (!ShouldRecord(op.caller)) return forward(arguments...);
  OpInFlight flight;
  if (LOCKSTEP_UNLIKELY(!BeginOp(op, &flight))) return forward(arguments...);
  const int result = forward(arguments...);
  EndOp(&flight, result);
  return result;
}

}  // namespace

LOCKSTEP_EXPORT int ncclAllReduce(const void* send, void* recv, size_t count, int type, int reduction, NcclComm comm,
                                  CudaStream stream) {
  static RealFunction function = {"ncclAllReduce"};
  void* real = RealNccl(&function, LOCKSTEP_CALLER);
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage;
  const Op op = {CallKind::kAllReduce, type, reduction, -1, count, send, recv, comm, stream, LOCKSTEP_CALLER};
  return Record(real, op, ncclAllReduce, send, recv, count, type, reduction, comm, stream);
}

LOCKSTEP_EXPORT int ncclReduceScatter(const void* send, void* recv, size_t count, int type, int reduction,
                                      NcclComm comm, CudaStream stream) {
  static RealFunction function = {"ncclReduceScatter"};
  void* real = RealNccl(&function, LOCKSTEP_CALLER);
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage;
  const Op op = {CallKind::kReduceScatter, type, reduction, -1, count, send, recv, comm, stream, LOCKSTEP_CALLER};
  return Record(real, op, ncclReduceScatter, send, recv, count, type, reduction, comm, stream);
}

LOCKSTEP_EXPORT int ncclAllGather(const void* send, void* recv, size_t count, int type, NcclComm comm,
                                  CudaStream stream) {
  static RealFunction function = {"ncclAllGather"};
  void* real = RealNccl(&function, LOCKSTEP_CALLER);
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage;
  const Op op = {CallKind::kAllGather, type, -1, -1, count, send, recv, comm, stream, LOCKSTEP_CALLER};
  return Record(real, op, ncclAllGather, send, recv, count, type, comm, stream);
}

LOCKSTEP_EXPORT int ncclReduce(const void* send, void* recv, size_t count, int type, int reduction, int root,
                               NcclComm comm, CudaStream stream) {
  static RealFunction function = {"ncclReduce"};
  void* real = RealNccl(&function, LOCKSTEP_CALLER);
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage;
  const Op op = {CallKind::kReduce, type, reduction, root, count, send, recv, comm, stream, LOCKSTEP_CALLER};
  return Record(real, op, ncclReduce, send, recv, count, type, reduction, root, comm, stream);
}

LOCKSTEP_EXPORT int ncclBroadcast(const void* send, void* recv, size_t count, int type, int root, NcclComm comm,
                                  CudaStream stream) {
  static RealFunction function = {"ncclBroadcast"};
  void* real = RealNccl(&function, LOCKSTEP_CALLER);
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage;
  const Op op = {CallKind::kBroadcast, type, -1, root, count, send, recv, comm, stream, LOCKSTEP_CALLER};
  return Record(real, op, ncclBroadcast, send, recv, count, type, root, comm, stream);
}

LOCKSTEP_EXPORT int ncclBcast(void* buffer, size_t count, int type, int root, NcclComm comm, CudaStream stream) {
  static RealFunction function = {"ncclBcast"};
  void* real = RealNccl(&function, LOCKSTEP_CALLER);
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage;
  const Op op = {CallKind::kBroadcast, type, -1, root, count, buffer, buffer, comm, stream, LOCKSTEP_CALLER};
  return Record(real, op, ncclBcast, buffer, count, type, root, comm, stream);
}

LOCKSTEP_EXPORT int ncclAlltoAll(const void* send, void* recv, size_t count, int type, NcclComm comm,
                                 CudaStream stream) {
  static RealFunction function = {"ncclAlltoAll"};
  void* real = RealNccl(&function, LOCKSTEP_CALLER);
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage;
  const Op op = {CallKind::kAlltoAll, type, -1, -1, count, send, recv, comm, stream, LOCKSTEP_CALLER};
  return Record(real, op, ncclAlltoAll, send, recv, count, type, comm, stream);
}

// RCCL's spelling, and one with counts of its own for every pair, which ranks need not agree on: not compared.
LOCKSTEP_EXPORT int ncclAllToAll(const void* send, void* recv, size_t count, int type, NcclComm comm,
                                 CudaStream stream) {
  static RealFunction function = {"ncclAllToAll"};
  void* real = RealNccl(&function, LOCKSTEP_CALLER);
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage;
  const Op op = {CallKind::kAlltoAll, type, -1, -1, count, send, recv, comm, stream, LOCKSTEP_CALLER};
  return Record(real, op, ncclAllToAll, send, recv, count, type, comm, stream);
}

LOCKSTEP_EXPORT int ncclAllToAllv(const void* send, const size_t* send_counts, const size_t* send_offsets, void* recv,
                                  const size_t* recv_counts, const size_t* recv_offsets, int type, NcclComm comm,
                                  CudaStream stream) {
  static RealFunction function = {"ncclAllToAllv"};
  void* real = RealNccl(&function, LOCKSTEP_CALLER);
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage;
  const Op op = {CallKind::kOtherCollective, type, -1, -1, 0, send, recv, comm, stream, LOCKSTEP_CALLER};
  return Record(real, op, ncclAllToAllv, send, send_counts, send_offsets, recv, recv_counts, recv_offsets, type, comm,
                stream);
}

LOCKSTEP_EXPORT int ncclGather(const void* send, void* recv, size_t count, int type, int root, NcclComm comm,
                               CudaStream stream) {
  static RealFunction function = {"ncclGather"};
  void* real = RealNccl(&function, LOCKSTEP_CALLER);
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage;
  const Op op = {CallKind::kGather, type, -1, root, count, send, recv, comm, stream, LOCKSTEP_CALLER};
  return Record(real, op, ncclGather, send, recv, count, type, root, comm, stream);
}

LOCKSTEP_EXPORT int ncclScatter(const void* send, void* recv, size_t count, int type, int root, NcclComm comm,
                                CudaStream stream) {
  static RealFunction function = {"ncclScatter"};
  void* real = RealNccl(&function, LOCKSTEP_CALLER);
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage;
  const Op op = {CallKind::kScatter, type, -1, root, count, send, recv, comm, stream, LOCKSTEP_CALLER};
  return Record(real, op, ncclScatter, send, recv, count, type, root, comm, stream);
}

LOCKSTEP_EXPORT int ncclSend(const void* buffer, size_t count, int type, int peer, NcclComm comm, CudaStream stream) {
  static RealFunction function = {"ncclSend"};
  void* real = RealNccl(&function, LOCKSTEP_CALLER);
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage;
  const Op op = {CallKind::kSend, type, -1, peer, count, buffer, nullptr, comm, stream, LOCKSTEP_CALLER};
  return Record(real, op, ncclSend, buffer, count, type, peer, comm, stream);
}

LOCKSTEP_EXPORT int ncclRecv(void* buffer, size_t count, int type, int peer, NcclComm comm, CudaStream stream) {
  static RealFunction function = {"ncclRecv"};
  void* real = RealNccl(&function, LOCKSTEP_CALLER);
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage;
  const Op op = {CallKind::kRecv, type, -1, peer, count, nullptr, buffer, comm, stream, LOCKSTEP_CALLER};
  return Record(real, op, ncclRecv, buffer, count, type, peer, comm, stream);
}

namespace {

// The same call of the host, once more. ShouldRecord finds out when a group's end was left by an exception.
inline bool Nested(const void* caller) noexcept {
  using namespace lockstep::recorder;
  if (LOCKSTEP_LIKELY(t_local.in_group_call == GroupCall::kNone)) return false;
  return t_local.in_group_call == GroupCall::kStart || !ShouldRecord(caller);
}

}  // namespace

LOCKSTEP_EXPORT int ncclGroupStart() {
  using namespace lockstep::recorder;
  static RealFunction function = {"ncclGroupStart"};
  void* real = RealNccl(&function, LOCKSTEP_CALLER);
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage;
  const void* caller = LOCKSTEP_CALLER;
  if (Nested(caller)) return reinterpret_cast<int (*)()>(real)();
  t_local.in_group_call = GroupCall::kStart;
  const int result = reinterpret_cast<int (*)()>(real)();
  t_local.in_group_call = GroupCall::kNone;
  if (result != kNcclSuccess || FromNccl(caller)) return result;
  const bool recording = ShouldRecord(caller);
  if (!recording && Recording()) return result;  // inside a recorded call: NCCL's own group
  const bool outermost = t_local.group_depth++ == 0;
  if (recording) {
    if (outermost) NoteGroupStart(caller);
    NoteGroupDepth();
  }
  return result;
}

namespace {

template <typename Forward>
int EndOfGroup(CallKind kind, const void* caller, Forward forward) noexcept {
  using namespace lockstep::recorder;
  if (FromNccl(caller) || Nested(caller)) return forward();
  const bool recording = ShouldRecord(caller);
  if (!recording && Recording()) return forward();
  const bool outermost = t_local.group_depth == 1;
  InsideMark mark;
  const bool begun = recording && outermost && BeginGroupEnd(kind, &mark);
  t_local.in_group_call = GroupCall::kEnd;
  const int result = forward();
  t_local.in_group_call = GroupCall::kNone;
  if (t_local.group_depth > 0) --t_local.group_depth;
  if (begun) EndGroup(result, kind == CallKind::kGroupSimulateEnd);
  if (recording && Recording()) NoteGroupDepth();
  return result;
}

}  // namespace

LOCKSTEP_EXPORT int ncclGroupEnd() {
  static RealFunction function = {"ncclGroupEnd"};
  void* real = RealNccl(&function, LOCKSTEP_CALLER);
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage;
  return EndOfGroup(CallKind::kGroupEnd, LOCKSTEP_CALLER, [&] { return reinterpret_cast<int (*)()>(real)(); });
}

LOCKSTEP_EXPORT int ncclGroupSimulateEnd(void* info) {
  static RealFunction function = {"ncclGroupSimulateEnd"};
  void* real = RealNccl(&function, LOCKSTEP_CALLER);
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return kNcclInvalidUsage;
  return EndOfGroup(CallKind::kGroupSimulateEnd, LOCKSTEP_CALLER,
                    [&] { return reinterpret_cast<int (*)(void*)>(real)(info); });
}
