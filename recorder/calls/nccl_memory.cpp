// Wrappers of the NCCL functions for memory, windows and custom reductions. They can block, or change the meaning of
// later calls.
#include "recorder/abi/nccl.h"
#include "recorder/core/ops.h"
#include "recorder/core/real.h"

using namespace lockstep::recorder;
using lockstep::ring::CallKind;

namespace {

template <typename Forward>
int Around(CallKind kind, NcclComm handle, const CallArguments& arguments, const void* caller,
           Forward forward) noexcept {
  if (!ShouldRecord(caller)) return forward();
  const CommLocal* comm = handle != nullptr ? KnownComm(handle) : nullptr;
  CallInFlight flight;
  if (!BeginCall(kind, comm, arguments, caller, &flight)) return forward();
  const int result = forward();
  EndCall(&flight, result, comm);
  return result;
}

CallArguments Sized(uint64_t bytes, const void* address) noexcept {
  CallArguments arguments;
  arguments.count = bytes;
  arguments.address = address;
  return arguments;
}

}  // namespace

LOCKSTEP_EXPORT int ncclRedOpCreatePreMulSum(int* op, void* scalar, int type, int residence, NcclComm comm) {
  LOCKSTEP_REAL_NCCL(ncclRedOpCreatePreMulSum);
  const bool recording = ShouldRecord(LOCKSTEP_CALLER);
  const int result = Around(CallKind::kRedOpCreate, comm, Sized(0, scalar), LOCKSTEP_CALLER,
                            [&] { return real(op, scalar, type, residence, comm); });
  // NCCL scrambles the number in the handle for each communicator. What ranks have in common is the handle's position
  // in creation order.
  if (recording && result == kNcclSuccess && op != nullptr && Recording()) {
    CommLocal* local = KnownComm(comm);
    if (local != nullptr) {
      local->reduction_handles[local->reductions % 8] = *op;
      ++local->reductions;
    }
  }
  return result;
}

LOCKSTEP_EXPORT int ncclRedOpDestroy(int op, NcclComm comm) {
  LOCKSTEP_REAL_NCCL(ncclRedOpDestroy);
  return Around(CallKind::kRedOpDestroy, comm, CallArguments(), LOCKSTEP_CALLER, [&] { return real(op, comm); });
}

LOCKSTEP_EXPORT int ncclMemAlloc(void** address, size_t bytes) {
  LOCKSTEP_REAL_NCCL(ncclMemAlloc);
  return Around(CallKind::kMemAlloc, nullptr, Sized(bytes, nullptr), LOCKSTEP_CALLER,
                [&] { return real(address, bytes); });
}

LOCKSTEP_EXPORT int ncclMemFree(void* address) {
  LOCKSTEP_REAL_NCCL(ncclMemFree);
  return Around(CallKind::kMemFree, nullptr, Sized(0, address), LOCKSTEP_CALLER, [&] { return real(address); });
}

LOCKSTEP_EXPORT int ncclCommRegister(NcclComm comm, void* address, size_t bytes, void** handle) {
  LOCKSTEP_REAL_NCCL(ncclCommRegister);
  return Around(CallKind::kCommRegister, comm, Sized(bytes, address), LOCKSTEP_CALLER,
                [&] { return real(comm, address, bytes, handle); });
}

LOCKSTEP_EXPORT int ncclCommDeregister(NcclComm comm, void* handle) {
  LOCKSTEP_REAL_NCCL(ncclCommDeregister);
  return Around(CallKind::kCommDeregister, comm, CallArguments(), LOCKSTEP_CALLER, [&] { return real(comm, handle); });
}

LOCKSTEP_EXPORT int ncclCommWindowRegister(NcclComm comm, void* address, size_t bytes, void** window, int flags) {
  LOCKSTEP_REAL_NCCL(ncclCommWindowRegister);
  return Around(CallKind::kWindowRegister, comm, Sized(bytes, address), LOCKSTEP_CALLER,
                [&] { return real(comm, address, bytes, window, flags); });
}

LOCKSTEP_EXPORT int ncclCommWindowDeregister(NcclComm comm, void* window) {
  LOCKSTEP_REAL_NCCL(ncclCommWindowDeregister);
  return Around(CallKind::kWindowDeregister, comm, CallArguments(), LOCKSTEP_CALLER,
                [&] { return real(comm, window); });
}
