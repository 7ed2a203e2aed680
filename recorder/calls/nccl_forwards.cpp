// NCCL functions that are passed on and not recorded: questions, parameters, host functions of the device API.
#include "recorder/abi/nccl.h"
#include "recorder/core/real.h"

using namespace lockstep::recorder;

namespace {

// Up to six integer or pointer arguments in, two registers out: holds for every function below on x86-64 and aarch64,
// also for those that take or return the three-int ncclTeam_t by value.
using Word = uintptr_t;
using Pair = unsigned __int128;
using AnyFunction = Pair (*)(Word, Word, Word, Word, Word, Word);

}  // namespace

// MISSING: what an NCCL that lacks the function answers.
#define LOCKSTEP_FORWARD_OR(NAME, MISSING)                                                 \
  LOCKSTEP_EXPORT Pair NAME(Word a, Word b, Word c, Word d, Word e, Word f) {              \
    static RealFunction function = {#NAME};                                                \
    const auto real = reinterpret_cast<AnyFunction>(RealNccl(&function, LOCKSTEP_CALLER)); \
    if (LOCKSTEP_UNLIKELY(real == nullptr)) return static_cast<Pair>(MISSING);             \
    return real(a, b, c, d, e, f);                                                         \
  }
#define LOCKSTEP_FORWARD(NAME) LOCKSTEP_FORWARD_OR(NAME, kNcclInvalidUsage)

LOCKSTEP_FORWARD(ncclGetVersion)
LOCKSTEP_FORWARD(ncclCommCount)
LOCKSTEP_FORWARD(ncclCommCuDevice)
LOCKSTEP_FORWARD(ncclCommUserRank)
LOCKSTEP_FORWARD(ncclCommMemStats)
LOCKSTEP_FORWARD(ncclCommQueryProperties)
LOCKSTEP_FORWARD(ncclCommGetUniqueId)
LOCKSTEP_FORWARD_OR(ncclResetDebugInit, 0)
LOCKSTEP_FORWARD(ncclWinGetUserPtr)
LOCKSTEP_FORWARD(ncclParamBind)
LOCKSTEP_FORWARD(ncclParamGetI8)
LOCKSTEP_FORWARD(ncclParamGetI16)
LOCKSTEP_FORWARD(ncclParamGetI32)
LOCKSTEP_FORWARD(ncclParamGetI64)
LOCKSTEP_FORWARD(ncclParamGetU8)
LOCKSTEP_FORWARD(ncclParamGetU16)
LOCKSTEP_FORWARD(ncclParamGetU32)
LOCKSTEP_FORWARD(ncclParamGetU64)
LOCKSTEP_FORWARD(ncclParamGetStr)
LOCKSTEP_FORWARD(ncclParamGet)
LOCKSTEP_FORWARD(ncclParamGetParameter)
LOCKSTEP_FORWARD(ncclParamGetAllParameterKeys)
LOCKSTEP_FORWARD_OR(ncclParamDumpAll, 0)
LOCKSTEP_FORWARD(ncclDevCommCreate)
LOCKSTEP_FORWARD(ncclDevCommDestroy)
LOCKSTEP_FORWARD(ncclGetLsaDevicePointer)
LOCKSTEP_FORWARD(ncclGetPeerDevicePointer)
LOCKSTEP_FORWARD(ncclGetLsaMultimemDevicePointer)
LOCKSTEP_FORWARD(ncclGetMultimemDevicePointer)
LOCKSTEP_FORWARD_OR(ncclTeamWorld, 0)
LOCKSTEP_FORWARD_OR(ncclTeamLsa, 0)
LOCKSTEP_FORWARD_OR(ncclTeamRail, 0)
LOCKSTEP_FORWARD_OR(ncclTeamRankToWorld, -1)
LOCKSTEP_FORWARD_OR(ncclTeamRankToLsa, -1)
LOCKSTEP_FORWARD(ncclLsaBarrierCreateRequirement)
LOCKSTEP_FORWARD(ncclGinBarrierCreateRequirement)
LOCKSTEP_FORWARD(ncclLLA2ACreateRequirement)
LOCKSTEP_FORWARD(ncclGinOutboxCreateRequirement)
LOCKSTEP_FORWARD(ncclGinInboxA2ACreateRequirement)
LOCKSTEP_FORWARD_OR(ncclLLA2ACalcSlots, 0)

// These two give text, and callers print it.
LOCKSTEP_EXPORT const char* ncclGetErrorString(int result) {
  static RealFunction function = {"ncclGetErrorString"};
  const auto real = reinterpret_cast<decltype(&ncclGetErrorString)>(RealNccl(&function, LOCKSTEP_CALLER));
  return real != nullptr ? real(result) : "NCCL is not loaded";
}

LOCKSTEP_EXPORT const char* ncclGetLastError(NcclComm comm) {
  static RealFunction function = {"ncclGetLastError"};
  const auto real = reinterpret_cast<decltype(&ncclGetLastError)>(RealNccl(&function, LOCKSTEP_CALLER));
  return real != nullptr ? real(comm) : "";
}
