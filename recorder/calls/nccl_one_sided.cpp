// Wrappers of NCCL's one-sided calls. For each peer, the recorder counts the signals sent to it and the signals
// awaited from it.
#include "recorder/abi/nccl.h"
#include "recorder/base/host_memory.h"
#include "recorder/core/ops.h"
#include "recorder/core/real.h"

using namespace lockstep::recorder;
using lockstep::ring::CallKind;

namespace {

struct WaitDescription {
  int count, peer, signal, context;
};
static_assert(sizeof(WaitDescription) == 16);

uint64_t Asked(const WaitDescription& wait) noexcept { return wait.count > 0 ? static_cast<uint64_t>(wait.count) : 0; }

template <typename Forward>
int Record(const Op& op, Forward forward) noexcept {
  OpInFlight flight;
  if (!ShouldRecord(op.caller) || !BeginOp(op, &flight)) return forward();
  const int result = forward();
  EndOp(&flight, result);
  return result;
}

}  // namespace

LOCKSTEP_EXPORT int ncclPutSignal(const void* local, size_t count, int type, int peer, void* window, size_t offset,
                                  int signal, int context, unsigned flags, NcclComm comm, CudaStream stream) {
  LOCKSTEP_REAL_NCCL(ncclPutSignal);
  const Op op = {CallKind::kPutSignal, type, -1, peer, count, local, nullptr, comm, stream, LOCKSTEP_CALLER};
  return Record(op,
                [&] { return real(local, count, type, peer, window, offset, signal, context, flags, comm, stream); });
}

LOCKSTEP_EXPORT int ncclSignal(int peer, int signal, int context, unsigned flags, NcclComm comm, CudaStream stream) {
  LOCKSTEP_REAL_NCCL(ncclSignal);
  const Op op = {CallKind::kSignal, -1, -1, peer, 0, nullptr, nullptr, comm, stream, LOCKSTEP_CALLER};
  return Record(op, [&] { return real(peer, signal, context, flags, comm, stream); });
}

// Each peer has its own record. The first is written before the call; the others share its GPU markers and are written
// once NCCL has accepted the call.
LOCKSTEP_EXPORT int ncclWaitSignal(int count, void* signals, NcclComm comm, CudaStream stream) {
  LOCKSTEP_REAL_NCCL(ncclWaitSignal);
  const void* caller = LOCKSTEP_CALLER;
  WaitDescription first;
  if (count < 1 || !ShouldRecord(caller) || !ReadHostMemory(signals, &first, sizeof(first))) {
    return real(count, signals, comm, stream);
  }
  const auto wait_for = [&](const WaitDescription& wait) {
    return Op{CallKind::kWaitSignal, -1, -1, wait.peer, Asked(wait), nullptr, nullptr, comm, stream, caller};
  };
  const Op op = wait_for(first);
  OpInFlight flight;
  if (!BeginOp(op, &flight)) return real(count, signals, comm, stream);
  const int result = real(count, signals, comm, stream);
  EndOp(&flight, result);
  const auto* waits = static_cast<const WaitDescription*>(signals);
  for (int i = 1; Accepted(result) && i < count && flight.epoch == g.epoch && ShouldRecord(caller); ++i) {
    WaitDescription wait;
    if (!ReadHostMemory(waits + i, &wait, sizeof(wait))) break;
    const Op other = wait_for(wait);
    OpInFlight more;
    if (BeginOp(other, &more, &flight)) EndOp(&more, result);
  }
  return result;
}
