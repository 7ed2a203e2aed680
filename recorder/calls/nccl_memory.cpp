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
  // NCCL scrambles the number in the handle for each communicator. Ranks can only compare the handle's position in
  // creation order.
  if (recording && result == kNcclSuccess && op != nullptr && Recording()) {
    CommLocal* local = KnownComm(comm);
    if (local != nullptr) {
      local->reduction_handles[local->reductions % 8] = *op;
      ++local->reductions;
    }
  }
  return result;
}

#define LOCKSTEP_CALL(NAME, KIND, COMM, SIZE, PARAMETERS, ARGUMENTS)                            \
  LOCKSTEP_EXPORT int NAME PARAMETERS {                                                         \
    LOCKSTEP_REAL_NCCL(NAME);                                                                   \
    return Around(CallKind::KIND, COMM, SIZE, LOCKSTEP_CALLER, [&] { return real ARGUMENTS; }); \
  }
LOCKSTEP_CALL(ncclRedOpDestroy, kRedOpDestroy, comm, CallArguments(), (int op, NcclComm comm), (op, comm))
LOCKSTEP_CALL(ncclMemAlloc, kMemAlloc, nullptr, Sized(bytes, nullptr), (void** address, size_t bytes), (address, bytes))
LOCKSTEP_CALL(ncclMemFree, kMemFree, nullptr, Sized(0, address), (void* address), (address))
LOCKSTEP_CALL(ncclCommRegister, kCommRegister, comm, Sized(bytes, address),
              (NcclComm comm, void* address, size_t bytes, void** handle), (comm, address, bytes, handle))
LOCKSTEP_CALL(ncclCommDeregister, kCommDeregister, comm, CallArguments(), (NcclComm comm, void* handle), (comm, handle))
LOCKSTEP_CALL(ncclCommWindowRegister, kWindowRegister, comm, Sized(bytes, address),
              (NcclComm comm, void* address, size_t bytes, void** window, int flags),
              (comm, address, bytes, window, flags))
LOCKSTEP_CALL(ncclCommWindowDeregister, kWindowDeregister, comm, CallArguments(), (NcclComm comm, void* window),
              (comm, window))
