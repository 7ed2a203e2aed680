// Values, layouts and signatures that the stand-in shares with the real libraries. This file is compiled against the
// stand-in's headers and against NVIDIA's, if these are installed.
#include <cuda.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>
#include <stddef.h>

#include <type_traits>

#define SAME(expression, ...) static_assert((expression) == (__VA_ARGS__), #expression)
#define AT(type, field, offset) SAME(offsetof(type, field), offset)
#define TYPED(name, ...)                                              \
  static_assert(std::is_same_v<decltype(&name), __VA_ARGS__>, #name); \
  static_assert(std::is_same_v<decltype(&p##name), __VA_ARGS__>, "p" #name)

// NCCL: numbers.
SAME(ncclSuccess, 0);
SAME(ncclUnhandledCudaError, 1);
SAME(ncclSystemError, 2);
SAME(ncclInternalError, 3);
SAME(ncclInvalidArgument, 4);
SAME(ncclInvalidUsage, 5);
SAME(ncclRemoteError, 6);
SAME(ncclInProgress, 7);
SAME(ncclInt8, 0);
SAME(ncclChar, 0);
SAME(ncclUint8, 1);
SAME(ncclInt32, 2);
SAME(ncclInt, 2);
SAME(ncclUint32, 3);
SAME(ncclInt64, 4);
SAME(ncclUint64, 5);
SAME(ncclFloat16, 6);
SAME(ncclHalf, 6);
SAME(ncclFloat32, 7);
SAME(ncclFloat, 7);
SAME(ncclFloat64, 8);
SAME(ncclDouble, 8);
SAME(ncclBfloat16, 9);
SAME(ncclFloat8e4m3, 10);
SAME(ncclFloat8e5m2, 11);
SAME(ncclNumTypes, 12);
SAME(ncclSum, 0);
SAME(ncclProd, 1);
SAME(ncclMax, 2);
SAME(ncclMin, 3);
SAME(ncclAvg, 4);
SAME(ncclNumOps, 5);
SAME(ncclMaxRedOp, 0x7fffffff);
SAME(sizeof(ncclRedOp_t), 4);
SAME(sizeof(ncclDataType_t), 4);
SAME(sizeof(ncclResult_t), 4);
SAME(ncclScalarDevice, 0);
SAME(ncclScalarHostImmediate, 1);
SAME(NCCL_SPLIT_NOCOLOR, -1);
SAME(NCCL_CONFIG_UNDEF_INT, INT_MIN);
SAME(NCCL_WIN_COLL_SYMMETRIC, 1);
SAME(NCCL_WIN_REQUIRED_ALIGNMENT, 4096);
SAME(NCCL_SHRINK_ABORT, 1);
SAME(NCCL_VERSION(2, 8, 4), 2804);
SAME(NCCL_VERSION(2, 28, 9), 22809);

// NCCL: layouts.
SAME(sizeof(ncclUniqueId), 128);
SAME(alignof(ncclUniqueId), 1);
AT(ncclConfig_t, size, 0);
AT(ncclConfig_t, magic, 8);
AT(ncclConfig_t, version, 12);
AT(ncclConfig_t, blocking, 16);
AT(ncclConfig_t, cgaClusterSize, 20);
AT(ncclConfig_t, minCTAs, 24);
AT(ncclConfig_t, maxCTAs, 28);
AT(ncclConfig_t, netName, 32);
AT(ncclConfig_t, splitShare, 40);
#if NCCL_VERSION_CODE >= 22600
AT(ncclConfig_t, trafficClass, 44);
#endif
#if NCCL_VERSION_CODE >= 22700
AT(ncclConfig_t, commName, 48);
AT(ncclConfig_t, collnetEnable, 56);
AT(ncclConfig_t, CTAPolicy, 60);
AT(ncclConfig_t, shrinkShare, 64);
AT(ncclConfig_t, nvlsCTAs, 68);
#endif
#if NCCL_VERSION_CODE >= 22800
AT(ncclConfig_t, nChannelsPerNetPeer, 72);
AT(ncclConfig_t, nvlinkCentricSched, 76);
#endif
#if NCCL_VERSION_CODE >= 22900
AT(ncclConfig_t, graphUsageMode, 80);
AT(ncclConfig_t, numRmaCtx, 84);
#endif
#if NCCL_VERSION_CODE >= 23007
AT(ncclConfig_t, maxP2pPeers, 88);
AT(ncclConfig_t, graphStreamOrdering, 92);
#endif
#if NCCL_VERSION_CODE >= 23203
SAME(ncclTimeout, 8);
AT(ncclConfig_t, launchOrderImplicit, 96);
AT(ncclConfig_t, numRmaSig, 100);
AT(ncclConfig_t, rmaEagerInit, 104);
AT(ncclConfig_t, hostCftMode, 108);
AT(ncclConfig_t, nvlsHostMode, 112);
SAME(sizeof(ncclConfig_t), 120);
AT(ncclCollConfig_t, ext, 16);
AT(ncclCollConfig_t, minCTAs, 24);
AT(ncclCollConfig_t, algSelection, 40);
AT(ncclCollConfig_t, CTAPolicy, 52);
AT(ncclCollConfig_t, userProfilerTag, 56);
AT(ncclCollConfig_t, launchCompletionEvent, 64);
SAME(sizeof(ncclCollConfig_t), 72);
AT(ncclEncryptionConfig_t, mode, 16);
AT(ncclEncryptionConfig_t, psk, 24);
#endif
SAME(sizeof(ncclSimInfo_t), 24);
AT(ncclSimInfo_t, estimatedTime, 16);
SAME(sizeof(ncclTeam_t), 12);
constexpr ncclConfig_t kConfig = NCCL_CONFIG_INITIALIZER;
SAME(kConfig.magic, 0xcafebeef);
SAME(kConfig.size, sizeof(ncclConfig_t));
SAME(kConfig.blocking, INT_MIN);
constexpr ncclSimInfo_t kSimInfo = NCCL_SIM_INFO_INITIALIZER;
SAME(kSimInfo.magic, 0x74685283);

// NCCL: signatures.
using R = ncclResult_t;
using C = ncclComm_t;
using S = cudaStream_t;
using D = ncclDataType_t;
using O = ncclRedOp_t;
TYPED(ncclGetVersion, R (*)(int*));
TYPED(ncclGetErrorString, const char* (*)(R));
TYPED(ncclGetLastError, const char* (*)(C));
TYPED(ncclGetUniqueId, R (*)(ncclUniqueId*));
TYPED(ncclCommInitRank, R (*)(C*, int, ncclUniqueId, int));
TYPED(ncclCommInitAll, R (*)(C*, int, const int*));
TYPED(ncclCommInitRankConfig, R (*)(C*, int, ncclUniqueId, int, ncclConfig_t*));
TYPED(ncclCommInitRankScalable, R (*)(C*, int, int, int, ncclUniqueId*, ncclConfig_t*));
TYPED(ncclCommSplit, R (*)(C, int, int, C*, ncclConfig_t*));
TYPED(ncclCommShrink, R (*)(C, int*, int, C*, ncclConfig_t*, int));
TYPED(ncclCommFinalize, R (*)(C));
TYPED(ncclCommDestroy, R (*)(C));
TYPED(ncclCommAbort, R (*)(C));
TYPED(ncclCommGetAsyncError, R (*)(C, R*));
TYPED(ncclCommCount, R (*)(const C, int*));
TYPED(ncclCommCuDevice, R (*)(const C, int*));
TYPED(ncclCommUserRank, R (*)(const C, int*));
TYPED(ncclAllReduce, R (*)(const void*, void*, size_t, D, O, C, S));
TYPED(ncclReduceScatter, R (*)(const void*, void*, size_t, D, O, C, S));
TYPED(ncclAllGather, R (*)(const void*, void*, size_t, D, C, S));
TYPED(ncclReduce, R (*)(const void*, void*, size_t, D, O, int, C, S));
TYPED(ncclBroadcast, R (*)(const void*, void*, size_t, D, int, C, S));
TYPED(ncclBcast, R (*)(void*, size_t, D, int, C, S));
TYPED(ncclAlltoAll, R (*)(const void*, void*, size_t, D, C, S));
TYPED(ncclGather, R (*)(const void*, void*, size_t, D, int, C, S));
TYPED(ncclScatter, R (*)(const void*, void*, size_t, D, int, C, S));
TYPED(ncclSend, R (*)(const void*, size_t, D, int, C, S));
TYPED(ncclRecv, R (*)(void*, size_t, D, int, C, S));
TYPED(ncclGroupStart, R (*)());
TYPED(ncclGroupEnd, R (*)());
TYPED(ncclGroupSimulateEnd, R (*)(ncclSimInfo_t*));
TYPED(ncclRedOpCreatePreMulSum, R (*)(O*, void*, D, ncclScalarResidence_t, C));
TYPED(ncclRedOpDestroy, R (*)(O, C));
TYPED(ncclMemAlloc, R (*)(void**, size_t));
TYPED(ncclMemFree, R (*)(void*));
TYPED(ncclCommRegister, R (*)(const C, void*, size_t, void**));
TYPED(ncclCommDeregister, R (*)(const C, void*));
TYPED(ncclCommWindowRegister, R (*)(C, void*, size_t, ncclWindow_t*, int));
TYPED(ncclCommWindowDeregister, R (*)(C, ncclWindow_t));
#if NCCL_VERSION_CODE >= 23203
using G = const ncclCollConfig_t*;
TYPED(ncclAllReduceConfig, R (*)(const void*, void*, size_t, D, O, C, S, G));
TYPED(ncclReduceScatterConfig, R (*)(const void*, void*, size_t, D, O, C, S, G));
TYPED(ncclAllGatherConfig, R (*)(const void*, void*, size_t, D, C, S, G));
TYPED(ncclReduceConfig, R (*)(const void*, void*, size_t, D, O, int, C, S, G));
TYPED(ncclBroadcastConfig, R (*)(const void*, void*, size_t, D, int, C, S, G));
TYPED(ncclAlltoAllConfig, R (*)(const void*, void*, size_t, D, C, S, G));
TYPED(ncclGatherConfig, R (*)(const void*, void*, size_t, D, int, C, S, G));
TYPED(ncclScatterConfig, R (*)(const void*, void*, size_t, D, int, C, S, G));
TYPED(ncclSetEncryption, R (*)(const ncclEncryptionConfig_t*));
SAME(sizeof(ncclCftLeId), 4);
static_assert(std::is_same_v<decltype(static_cast<ncclTeam_t (*)(C)>(&ncclTeamCftMultimem)), ncclTeam_t (*)(C)>);
static_assert(std::is_same_v<decltype(&ncclGetCftDeviceLeInfo),
                             R (*)(ncclWindow_t, size_t, int, ncclTeam_t, ncclCftLeId*, size_t*)>);
#endif
#if NCCL_VERSION_CODE >= 22807
TYPED(ncclCommRevoke, R (*)(C, int));
#endif
#if NCCL_VERSION_CODE >= 22900
TYPED(ncclCommGetUniqueId, R (*)(C, ncclUniqueId*));
TYPED(ncclCommGrow, R (*)(C, int, const ncclUniqueId*, int, C*, ncclConfig_t*));
TYPED(ncclWinGetUserPtr, R (*)(C, ncclWindow_t, void**));
SAME(sizeof(ncclWaitSignalDesc_t), 16);
#if NCCL_VERSION_CODE >= 23203
SAME(sizeof(ncclCommProperties_t), 152);
AT(ncclCommProperties_t, commHash, 56);
#endif
#endif

// The CUDA runtime.
SAME(cudaSuccess, 0);
SAME(cudaErrorInvalidValue, 1);
SAME(cudaErrorMemoryAllocation, 2);
SAME(cudaErrorInitializationError, 3);
SAME(cudaErrorInvalidDevicePointer, 17);
SAME(cudaErrorInvalidMemcpyDirection, 21);
SAME(cudaErrorNoDevice, 100);
SAME(cudaErrorInvalidDevice, 101);
SAME(cudaErrorInvalidResourceHandle, 400);
SAME(cudaErrorNotReady, 600);
SAME(cudaErrorHostMemoryAlreadyRegistered, 712);
SAME(cudaErrorHostMemoryNotRegistered, 713);
SAME(cudaErrorLaunchFailure, 719);
SAME(cudaErrorNotSupported, 801);
SAME(cudaErrorUnknown, 999);
SAME(cudaMemcpyHostToDevice, 1);
SAME(cudaMemcpyDeviceToHost, 2);
SAME(cudaMemcpyDeviceToDevice, 3);
SAME(cudaMemcpyDefault, 4);
SAME(cudaStreamNonBlocking, 1);
SAME(cudaEventDisableTiming, 2);
SAME(cudaStreamCaptureStatusNone, 0);
SAME(cudaStreamCaptureStatusActive, 1);
#if CUDART_VERSION >= 13000
SAME(sizeof(cudaDeviceProp), 1008);
AT(cudaDeviceProp, name, 0);
AT(cudaDeviceProp, uuid, 256);
AT(cudaDeviceProp, totalGlobalMem, 288);
AT(cudaDeviceProp, major, 360);
AT(cudaDeviceProp, minor, 364);
AT(cudaDeviceProp, multiProcessorCount, 384);
#endif

// The driver.
SAME(CUDA_SUCCESS, 0);
SAME(CUDA_ERROR_INVALID_VALUE, 1);
SAME(CUDA_ERROR_INVALID_DEVICE, 101);
SAME(CUDA_ERROR_INVALID_CONTEXT, 201);
SAME(CUDA_ERROR_INVALID_HANDLE, 400);
SAME(CUDA_ERROR_NOT_FOUND, 500);
SAME(CUDA_ERROR_NOT_READY, 600);
SAME(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712);
SAME(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713);
SAME(CUDA_ERROR_NOT_SUPPORTED, 801);
SAME(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 19);
SAME(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 33);
SAME(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 99);
SAME(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 93);
SAME(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 122);
SAME(CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER, 1);
SAME(CU_MEMHOSTREGISTER_PORTABLE, 1);
SAME(CU_MEMHOSTREGISTER_DEVICEMAP, 2);
static_assert(
    std::is_same_v<decltype(&cuStreamWriteValue64), CUresult (*)(CUstream, CUdeviceptr, cuuint64_t, unsigned)>);
static_assert(std::is_same_v<decltype(&cuMemHostRegister), CUresult (*)(void*, size_t, unsigned)>);
static_assert(std::is_same_v<decltype(&cuMemHostGetDevicePointer), CUresult (*)(CUdeviceptr*, void*, unsigned)>);
static_assert(std::is_same_v<decltype(&cuStreamGetCtx), CUresult (*)(CUstream, CUcontext*)>);
static_assert(std::is_same_v<decltype(&cuDeviceGetAttribute), CUresult (*)(int*, CUdevice_attribute, CUdevice)>);
