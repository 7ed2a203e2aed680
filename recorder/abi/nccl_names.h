// The names of NCCL's public functions, in two lists. Every function that this library exports under an NCCL name
// stands in one of them: a missing name is seen by dlsym where it must not be (library_test.py finds it).
//
// The exports carry the hidden version LOCKSTEP, the first that the library defines. The linker takes such a symbol for
// references without a version, which is what programs and NCCL itself have, and dlsym never finds it: whoever asks
// dlsym for an NCCL function is told what is there without the recorder, and dlerror says the same.
#ifndef LOCKSTEP_RECORDER_ABI_NCCL_NAMES_H_
#define LOCKSTEP_RECORDER_ABI_NCCL_NAMES_H_

// Recorded: also handed out by the dlsym hook, and exported under its second name, pncclX.
// clang-format off
#define LOCKSTEP_RECORDED_NAMES(X)                                                                               \
  X(ncclAllGather) X(ncclAllReduce) X(ncclAllToAll) X(ncclAllToAllv) X(ncclAlltoAll) X(ncclBcast)                \
  X(ncclBroadcast) X(ncclGather) X(ncclRecv) X(ncclReduce) X(ncclReduceScatter) X(ncclScatter) X(ncclSend)                   \
  X(ncclGroupEnd) X(ncclGroupSimulateEnd) X(ncclGroupStart)                   \
  X(ncclCommAbort) X(ncclCommDestroy) X(ncclCommFinalize) X(ncclCommGetAsyncError) X(ncclCommGrow)               \
  X(ncclCommInitAll) X(ncclCommInitRank) X(ncclCommInitRankConfig) X(ncclCommInitRankScalable)                   \
  X(ncclCommResume) X(ncclCommRevoke) X(ncclCommShrink) X(ncclCommSplit) X(ncclCommSuspend)                   \
  X(ncclCommDeregister) X(ncclCommRegister) X(ncclCommWindowDeregister) X(ncclCommWindowRegister)                \
  X(ncclMemAlloc) X(ncclMemFree) X(ncclRedOpCreatePreMulSum) X(ncclRedOpDestroy)                   \
  X(ncclPutSignal) X(ncclSignal) X(ncclWaitSignal)

// Passed on and not recorded.
#define LOCKSTEP_FORWARDED_NAMES(X)                                                                              \
  X(ncclCommCount) X(ncclCommCuDevice) X(ncclCommGetUniqueId) X(ncclCommMemStats) X(ncclCommQueryProperties)     \
  X(ncclCommUserRank) X(ncclDevCommCreate) X(ncclDevCommDestroy) X(ncclGetErrorString) X(ncclGetLastError)       \
  X(ncclGetLsaDevicePointer) X(ncclGetLsaMultimemDevicePointer) X(ncclGetMultimemDevicePointer)                  \
  X(ncclGetPeerDevicePointer) X(ncclGetUniqueId) X(ncclGetVersion) X(ncclGinBarrierCreateRequirement)            \
  X(ncclGinInboxA2ACreateRequirement) X(ncclGinOutboxCreateRequirement) X(ncclLLA2ACalcSlots)                   \
  X(ncclLLA2ACreateRequirement) X(ncclLsaBarrierCreateRequirement) X(ncclParamBind) X(ncclParamDumpAll)          \
  X(ncclParamGet) X(ncclParamGetAllParameterKeys) X(ncclParamGetI16) X(ncclParamGetI32) X(ncclParamGetI64)       \
  X(ncclParamGetI8) X(ncclParamGetParameter) X(ncclParamGetStr) X(ncclParamGetU16) X(ncclParamGetU32)            \
  X(ncclParamGetU64) X(ncclParamGetU8) X(ncclResetDebugInit) X(ncclTeamLsa) X(ncclTeamRail)                   \
  X(ncclTeamRankToLsa) X(ncclTeamRankToWorld) X(ncclTeamWorld) X(ncclWinGetUserPtr)

// In every file that defines some of them; for the names that a file does not define the directive says nothing.
#define LOCKSTEP_HIDE_FROM_DLSYM(NAME) ".symver " #NAME ", " #NAME "@LOCKSTEP\n"
__asm__(LOCKSTEP_RECORDED_NAMES(LOCKSTEP_HIDE_FROM_DLSYM) LOCKSTEP_FORWARDED_NAMES(LOCKSTEP_HIDE_FROM_DLSYM));
// clang-format on

#endif  // LOCKSTEP_RECORDER_ABI_NCCL_NAMES_H_
