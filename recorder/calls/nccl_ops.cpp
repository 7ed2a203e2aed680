// Wrappers of NCCL's collectives, sends, receives and groups.
#include "recorder/abi/nccl.h"
#include "recorder/core/ops.h"
#include "recorder/core/real.h"

using namespace lockstep::recorder;
using lockstep::ring::CallKind;

namespace {

// Forwards `arguments` and records `op` around the call.
template <typename... Parameters, typename... Arguments>
inline __attribute__((always_inline)) int Record(int (*forward)(Parameters...), const Op& op,
                                                 Arguments... arguments) noexcept {
  if (!ShouldRecord(op.caller)) return forward(arguments...);
  OpInFlight flight;
  if (LOCKSTEP_UNLIKELY(!BeginOp(op, &flight))) return forward(arguments...);
  const int result = forward(arguments...);
  EndOp(&flight, result);
  return result;
}

}  // namespace

// Defines a wrapper. OP lists the recorded fields up to the communicator. The arguments to forward follow the
// parameters.
#define LOCKSTEP_LIST(...) __VA_ARGS__
#define LOCKSTEP_OPERATION(NAME, OP, PARAMETERS, ...)                          \
  LOCKSTEP_EXPORT int NAME PARAMETERS {                                        \
    LOCKSTEP_REAL_NCCL(NAME);                                                  \
    const Op op = {CallKind::LOCKSTEP_LIST OP, comm, stream, LOCKSTEP_CALLER}; \
    return Record(real, op, __VA_ARGS__);                                      \
  }

// NCCL 2.31 added a variant of each function with a configuration for the call, which changes nothing that ranks must
// agree on.
#define LOCKSTEP_WITH_CONFIG(...) (__VA_ARGS__, const void* config)
#define LOCKSTEP_COLLECTIVE(NAME, OP, PARAMETERS, ...)  \
  LOCKSTEP_OPERATION(NAME, OP, PARAMETERS, __VA_ARGS__) \
  LOCKSTEP_OPERATION(NAME##Config, OP, LOCKSTEP_WITH_CONFIG PARAMETERS, __VA_ARGS__, config)

LOCKSTEP_COLLECTIVE(ncclAllReduce, (kAllReduce, type, reduction, -1, count, send, recv),
                    (const void* send, void* recv, size_t count, int type, int reduction, NcclComm comm,
                     CudaStream stream),
                    send, recv, count, type, reduction, comm, stream)
LOCKSTEP_COLLECTIVE(ncclReduceScatter, (kReduceScatter, type, reduction, -1, count, send, recv),
                    (const void* send, void* recv, size_t count, int type, int reduction, NcclComm comm,
                     CudaStream stream),
                    send, recv, count, type, reduction, comm, stream)
LOCKSTEP_COLLECTIVE(ncclAllGather, (kAllGather, type, -1, -1, count, send, recv),
                    (const void* send, void* recv, size_t count, int type, NcclComm comm, CudaStream stream), send,
                    recv, count, type, comm, stream)
LOCKSTEP_COLLECTIVE(ncclReduce, (kReduce, type, reduction, root, count, send, recv),
                    (const void* send, void* recv, size_t count, int type, int reduction, int root, NcclComm comm,
                     CudaStream stream),
                    send, recv, count, type, reduction, root, comm, stream)
LOCKSTEP_COLLECTIVE(ncclBroadcast, (kBroadcast, type, -1, root, count, send, recv),
                    (const void* send, void* recv, size_t count, int type, int root, NcclComm comm, CudaStream stream),
                    send, recv, count, type, root, comm, stream)
LOCKSTEP_COLLECTIVE(ncclAlltoAll, (kAlltoAll, type, -1, -1, count, send, recv),
                    (const void* send, void* recv, size_t count, int type, NcclComm comm, CudaStream stream), send,
                    recv, count, type, comm, stream)
LOCKSTEP_COLLECTIVE(ncclGather, (kGather, type, -1, root, count, send, recv),
                    (const void* send, void* recv, size_t count, int type, int root, NcclComm comm, CudaStream stream),
                    send, recv, count, type, root, comm, stream)
LOCKSTEP_COLLECTIVE(ncclScatter, (kScatter, type, -1, root, count, send, recv),
                    (const void* send, void* recv, size_t count, int type, int root, NcclComm comm, CudaStream stream),
                    send, recv, count, type, root, comm, stream)

LOCKSTEP_OPERATION(ncclBcast, (kBroadcast, type, -1, root, count, buffer, buffer),
                   (void* buffer, size_t count, int type, int root, NcclComm comm, CudaStream stream), buffer, count,
                   type, root, comm, stream)
LOCKSTEP_OPERATION(ncclSend, (kSend, type, -1, peer, count, buffer, nullptr),
                   (const void* buffer, size_t count, int type, int peer, NcclComm comm, CudaStream stream), buffer,
                   count, type, peer, comm, stream)
LOCKSTEP_OPERATION(ncclRecv, (kRecv, type, -1, peer, count, nullptr, buffer),
                   (void* buffer, size_t count, int type, int peer, NcclComm comm, CudaStream stream), buffer, count,
                   type, peer, comm, stream)

// RCCL's own functions. Those with separate counts for each pair are kOtherCollective, because ranks need not agree on
// the counts.
LOCKSTEP_OPERATION(ncclAllReduceWithBias, (kAllReduce, type, reduction, -1, count, send, recv),
                   (const void* send, void* recv, size_t count, int type, int reduction, NcclComm comm,
                    CudaStream stream, const void* bias),
                   send, recv, count, type, reduction, comm, stream, bias)
LOCKSTEP_OPERATION(ncclAllToAll, (kAlltoAll, type, -1, -1, count, send, recv),
                   (const void* send, void* recv, size_t count, int type, NcclComm comm, CudaStream stream), send, recv,
                   count, type, comm, stream)
LOCKSTEP_OPERATION(ncclAllToAllv, (kOtherCollective, type, -1, -1, 0, send, recv),
                   (const void* send, const size_t* send_counts, const size_t* send_offsets, void* recv,
                    const size_t* recv_counts, const size_t* recv_offsets, int type, NcclComm comm, CudaStream stream),
                   send, send_counts, send_offsets, recv, recv_counts, recv_offsets, type, comm, stream)
LOCKSTEP_OPERATION(mscclRunAlgo, (kOtherCollective, type, reduction, -1, count, send, recv),
                   (const void* send, const size_t* send_counts, const size_t* send_offsets, void* recv,
                    const size_t* recv_counts, const size_t* recv_offsets, size_t count, int type, int root, int peer,
                    int reduction, int algorithm, NcclComm comm, CudaStream stream),
                   send, send_counts, send_offsets, recv, recv_counts, recv_offsets, count, type, root, peer, reduction,
                   algorithm, comm, stream)

// RCCL's newer spelling. A fork of NCCL has a function with this name and one more pointer before the datatype. So
// ten words are passed on, and a call is recorded only if its eighth word is a known communicator.
LOCKSTEP_EXPORT int ncclAlltoAllv(const void* send, const size_t* send_counts, const size_t* send_offsets, void* recv,
                                  const size_t* recv_counts, const size_t* recv_offsets, uintptr_t type, NcclComm comm,
                                  CudaStream stream, uintptr_t tenth) {
  LOCKSTEP_REAL_NCCL(ncclAlltoAllv);
  if (KnownComm(comm) == nullptr) {
    return real(send, send_counts, send_offsets, recv, recv_counts, recv_offsets, type, comm, stream, tenth);
  }
  const Op op = {
      CallKind::kOtherCollective, static_cast<int>(type), -1, -1, 0, send, recv, comm, stream, LOCKSTEP_CALLER};
  return Record(real, op, send, send_counts, send_offsets, recv, recv_counts, recv_offsets, type, comm, stream, tenth);
}

namespace {

// Returns whether this call is a part of another group call: NCCL's own, or one that a tool passed on. ShouldRecord
// detects that an exception left the end of a group.
inline bool Nested(const void* caller) noexcept {
  if (LOCKSTEP_LIKELY(t_local.in_group_call == GroupCall::kNone)) return false;
  return t_local.in_group_call == GroupCall::kStart || !ShouldRecord(caller);
}

}  // namespace

LOCKSTEP_EXPORT int ncclGroupStart() {
  LOCKSTEP_REAL_NCCL(ncclGroupStart);
  const void* caller = LOCKSTEP_CALLER;
  if (Nested(caller)) return real();
  t_local.in_group_call = GroupCall::kStart;
  const int result = real();
  t_local.in_group_call = GroupCall::kNone;
  if (result != kNcclSuccess || FromNccl(caller)) return result;
  const bool recording = ShouldRecord(caller);
  if (!recording && Recording()) return result;  // inside a recorded call: this is NCCL's own group
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
  LOCKSTEP_REAL_NCCL(ncclGroupEnd);
  return EndOfGroup(CallKind::kGroupEnd, LOCKSTEP_CALLER, [&] { return real(); });
}

LOCKSTEP_EXPORT int ncclGroupSimulateEnd(void* info) {
  LOCKSTEP_REAL_NCCL(ncclGroupSimulateEnd);
  return EndOfGroup(CallKind::kGroupSimulateEnd, LOCKSTEP_CALLER, [&] { return real(info); });
}
