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

// The record names the first peer. The other peers' counts rise once NCCL has accepted the call.
LOCKSTEP_EXPORT int ncclWaitSignal(int count, void* signals, NcclComm comm, CudaStream stream) {
  LOCKSTEP_REAL_NCCL(ncclWaitSignal);
  constexpr int kMost = 64;
  WaitDescription waits[kMost];
  const int wanted = count < kMost ? count : kMost;
  if (wanted < 1 || !ShouldRecord(LOCKSTEP_CALLER) ||
      !ReadHostMemory(signals, waits, sizeof(waits[0]) * static_cast<size_t>(wanted))) {
    return real(count, signals, comm, stream);
  }
  const Op op = {CallKind::kWaitSignal, -1, -1, waits[0].peer, Asked(waits[0]), nullptr, nullptr, comm, stream,
                 LOCKSTEP_CALLER};
  OpInFlight flight;
  if (!BeginOp(op, &flight)) return real(count, signals, comm, stream);
  const int result = real(count, signals, comm, stream);
  const bool counts = Accepted(result) && Recording() && flight.epoch == g.epoch;
  for (int i = 1; counts && i < wanted; ++i) {
    lockstep::ring::PeerEntry* peer = FindPeer(flight.comm, waits[i].peer);
    if (peer != nullptr) Store(&peer->waited, peer->waited + Asked(waits[i]));
  }
  EndOp(&flight, result);
  return result;
}
