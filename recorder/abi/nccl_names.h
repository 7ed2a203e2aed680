// Lists of NCCL's public functions and RCCL's additions, by name. Every such function that this library exports must be
// in one of the lists. Otherwise dlsym would find it where it must not (library_test.py checks this).
//
// The exports have the hidden version LOCKSTEP, the first that the library defines. The linker resolves references
// without a version, such as those in programs and in NCCL itself, to these symbols. dlsym never finds them, so dlsym
// and dlerror return the same as without the recorder.
#pragma once

// These functions are recorded. The dlsym hook returns them too, and each is exported under its second name, pncclX.
// clang-format off
#define LOCKSTEP_RECORDED_NAMES(X)                                                                               \
  X(ncclAllGather) X(ncclAllReduce) X(ncclAlltoAll) X(ncclBcast) X(ncclBroadcast) X(ncclGather) X(ncclRecv)      \
  X(ncclReduce) X(ncclReduceScatter) X(ncclScatter) X(ncclSend)                                                  \
  X(ncclAllGatherConfig) X(ncclAllReduceConfig) X(ncclAlltoAllConfig) X(ncclBroadcastConfig)                     \
  X(ncclGatherConfig) X(ncclReduceConfig) X(ncclReduceScatterConfig) X(ncclScatterConfig)                        \
  X(ncclAllReduceWithBias) X(ncclAllToAll) X(ncclAllToAllv) X(ncclAlltoAllv) X(mscclRunAlgo)                     \
  X(ncclGroupEnd) X(ncclGroupSimulateEnd) X(ncclGroupStart)                                                      \
  X(ncclCommAbort) X(ncclCommDestroy) X(ncclCommFinalize) X(ncclCommGetAsyncError) X(ncclCommGrow)               \
  X(ncclCommInitAll) X(ncclCommInitRank) X(ncclCommInitRankConfig) X(ncclCommInitRankScalable)                   \
  X(ncclCommResume) X(ncclCommRevoke) X(ncclCommShrink) X(ncclCommSplit) X(ncclCommSuspend)                      \
  X(ncclCommDeregister) X(ncclCommRegister) X(ncclCommWindowDeregister) X(ncclCommWindowRegister)                \
  X(ncclMemAlloc) X(ncclMemFree) X(ncclRedOpCreatePreMulSum) X(ncclRedOpDestroy)                                 \
  X(ncclPutSignal) X(ncclSignal) X(ncclWaitSignal)

// Forwarded but not recorded. The second column is the result if NCCL does not have the function. nccl_forwards.cpp
// defines them from this list.
#define LOCKSTEP_FORWARDED_NAMES(X)                                                                              \
  X(ncclCommCount, kNcclInvalidUsage) X(ncclCommCuDevice, kNcclInvalidUsage)                                     \
  X(ncclCommGetUniqueId, kNcclInvalidUsage) X(ncclCommMemStats, kNcclInvalidUsage)                               \
  X(ncclCommQueryProperties, kNcclInvalidUsage) X(ncclCommUserRank, kNcclInvalidUsage)                           \
  X(ncclDevCommCreate, kNcclInvalidUsage) X(ncclDevCommDestroy, kNcclInvalidUsage)                               \
  X(ncclGetCftDeviceLeInfo, kNcclInvalidUsage) X(ncclGetLsaDevicePointer, kNcclInvalidUsage)                     \
  X(ncclGetLsaMultimemDevicePointer, kNcclInvalidUsage) X(ncclGetMultimemDeviceLeInfo, kNcclInvalidUsage)        \
  X(ncclGetMultimemDevicePointer, kNcclInvalidUsage) X(ncclGetPeerDeviceLeInfo, kNcclInvalidUsage)               \
  X(ncclGetPeerDevicePointer, kNcclInvalidUsage)                                                                \
  X(ncclGetVersion, kNcclInvalidUsage) X(ncclGinBarrierCreateRequirement, kNcclInvalidUsage)                     \
  X(ncclGinInboxA2ACreateRequirement, kNcclInvalidUsage) X(ncclGinOutboxCreateRequirement, kNcclInvalidUsage)    \
  X(ncclLLA2ACalcSlots, 0) X(ncclLLA2ACreateRequirement, kNcclInvalidUsage)                                      \
  X(ncclLsaBarrierCreateRequirement, kNcclInvalidUsage) X(ncclParamBind, kNcclInvalidUsage)                      \
  X(ncclParamDumpAll, 0) X(ncclParamGet, kNcclInvalidUsage)                                                      \
  X(ncclParamGetAllParameterKeys, kNcclInvalidUsage) X(ncclParamGetI16, kNcclInvalidUsage)                       \
  X(ncclParamGetI32, kNcclInvalidUsage) X(ncclParamGetI64, kNcclInvalidUsage)                                    \
  X(ncclParamGetI8, kNcclInvalidUsage) X(ncclParamGetParameter, kNcclInvalidUsage)                               \
  X(ncclParamGetStr, kNcclInvalidUsage) X(ncclParamGetU16, kNcclInvalidUsage)                                    \
  X(ncclParamGetU32, kNcclInvalidUsage) X(ncclParamGetU64, kNcclInvalidUsage)                                    \
  X(ncclParamGetU8, kNcclInvalidUsage) X(ncclResetDebugInit, 0) X(ncclSetEncryption, kNcclInvalidUsage)          \
  X(ncclTeamCft, 0) X(ncclTeamCftMultimem, 0) X(ncclTeamLsa, 0) X(ncclTeamRail, 0) X(ncclTeamRankToLsa, -1)      \
  X(ncclTeamRankToWorld, -1) X(ncclTeamWorld, 0) X(ncclWinGetUserPtr, kNcclInvalidUsage)                         \
  X(mscclLoadAlgo, kNcclInvalidUsage) X(mscclUnloadAlgo, kNcclInvalidUsage)

// These functions are only forwarded, too. They return text that callers print.
#define LOCKSTEP_TEXT_NAMES(X) X(ncclGetErrorString, "NCCL is not loaded") X(ncclGetLastError, "")

// Wrapped only to store the ID. The dlsym hook does not return the wrapper.
#define LOCKSTEP_SEEN_NAMES(X) X(ncclGetUniqueId)

#define LOCKSTEP_NCCL_NAMES(X) \
  LOCKSTEP_RECORDED_NAMES(X) LOCKSTEP_FORWARDED_NAMES(X) LOCKSTEP_TEXT_NAMES(X) LOCKSTEP_SEEN_NAMES(X)

// The newest NCCL whose functions are in the lists. For newer versions, the recorder reports the functions that it
// does not support.
#define LOCKSTEP_NEWEST_NCCL 23203

// Every file that defines some of these functions must contain this directive. It has no effect on names that the
// file does not define.
#define LOCKSTEP_HIDE_FROM_DLSYM(NAME, ...) ".symver " #NAME ", " #NAME "@LOCKSTEP\n"
__asm__(LOCKSTEP_NCCL_NAMES(LOCKSTEP_HIDE_FROM_DLSYM));
// clang-format on
