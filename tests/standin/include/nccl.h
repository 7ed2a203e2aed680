// The public interface of NCCL 2.32 that a program on the CPU can use; names, values and layouts are NCCL's.
#ifndef NCCL_H_
#define NCCL_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_MAJOR 2
#define NCCL_MINOR 32
#define NCCL_PATCH 3
#define NCCL_SUFFIX ""
#define NCCL_VERSION(X, Y, Z) (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE 23203

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
typedef struct ncclParamHandle* ncclParamHandle_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclTimeout = 8,
  ncclNumResults = 9
} ncclResult_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_API_MAGIC 0xcafebeef
#define NCCL_SIM_INFO_MAGIC 0x74685283

#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_GIN_ONLY 0x04
#define NCCL_WIN_CFT_COUNTED 0x08
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_REVOKE_DEFAULT 0x00
#define NCCL_SUSPEND_MEM 0x01

typedef struct ncclConfig_v23100 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx;
  int maxP2pPeers;
  int graphStreamOrdering;
  int launchOrderImplicit;
  int numRmaSig;
  int rmaEagerInit;
  int hostCftMode;
  int nvlsHostMode;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                            \
  {                                                                                                        \
    sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,        \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,        \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,        \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,        \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,        \
        NCCL_CONFIG_UNDEF_INT                                                                              \
  }

typedef struct ncclConfigExt {
  struct ncclConfigExt* next;
  struct {
    int vendorId;
    int optionId;
  } key;
  union {
    int i;
    const char* s;
    void* raw;
  } val;
} ncclConfigExt_t;

typedef struct ncclCollConfig_v23200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  ncclConfigExt_t* ext;
  int minCTAs;
  int maxCTAs;
  int nvlsCTAs;
  int cgaClusterSize;
  const char* algSelection;
  int forceAlgSelection;
  int CTAPolicy;
  uint64_t userProfilerTag;
  cudaEvent_t launchCompletionEvent;
} ncclCollConfig_t;

#define NCCL_COLLCONFIG_INITIALIZER                                                                            \
  {                                                                                                            \
    sizeof(ncclCollConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, 1,         \
        NCCL_CONFIG_UNDEF_INT, 0, NCCL_CONFIG_UNDEF_PTR                                                        \
  }

typedef enum { NCCL_ENCRYPTION_MODE_NONE = 0, NCCL_ENCRYPTION_MODE_PSK = 1 } ncclEncryptionMode_t;
typedef struct ncclEncryptionConfig_v23200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int mode;
  const char* psk;
} ncclEncryptionConfig_t;

typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime;
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER \
  { sizeof(ncclSimInfo_t), NCCL_SIM_INFO_MAGIC, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT }

typedef struct ncclWaitSignalDesc {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

typedef enum {
  ncclStatGpuMemSuspend = 0,
  ncclStatGpuMemSuspended = 1,
  ncclStatGpuMemPersist = 2,
  ncclStatGpuMemTotal = 3
} ncclCommMemStat_t;

// Every function has a twin at the same address, whose name begins with p.
#define NCCL_STANDIN_FUNCTION(type, name, params) \
  type name params;                               \
  type p##name params

NCCL_STANDIN_FUNCTION(ncclResult_t, ncclGetVersion, (int* version));
NCCL_STANDIN_FUNCTION(const char*, ncclGetErrorString, (ncclResult_t result));
NCCL_STANDIN_FUNCTION(const char*, ncclGetLastError, (ncclComm_t comm));
NCCL_STANDIN_FUNCTION(void, ncclResetDebugInit, (void));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * uniqueId));

NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommInitRankConfig,
                      (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommInitRankScalable,
                      (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
                       ncclConfig_t* config));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommInitAll, (ncclComm_t * comm, int ndev, const int* devlist));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommSplit,
                      (ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommShrink,
                      (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm,
                       ncclConfig_t* config, int shrinkFlags));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommGetUniqueId, (ncclComm_t comm, ncclUniqueId* uniqueId));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommGrow,
                      (ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank, ncclComm_t* newcomm,
                       ncclConfig_t* config));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int revokeFlags));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommFinalize, (ncclComm_t comm));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommDestroy, (ncclComm_t comm));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommAbort, (ncclComm_t comm));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommSuspend, (ncclComm_t comm, int flags));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommResume, (ncclComm_t comm));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommMemStats, (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* asyncError));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int* count));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int* device));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int* rank));

NCCL_STANDIN_FUNCTION(ncclResult_t, ncclAllReduce,
                      (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                       ncclComm_t comm, cudaStream_t stream));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclReduceScatter,
                      (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                       ncclComm_t comm, cudaStream_t stream));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclAllGather,
                      (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
                       cudaStream_t stream));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclReduce,
                      (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                       int root, ncclComm_t comm, cudaStream_t stream));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclBroadcast,
                      (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                       ncclComm_t comm, cudaStream_t stream));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclBcast,
                      (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclAlltoAll,
                      (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                       cudaStream_t stream));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclGather,
                      (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                       ncclComm_t comm, cudaStream_t stream));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclScatter,
                      (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                       ncclComm_t comm, cudaStream_t stream));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclSend,
                      (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       cudaStream_t stream));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclRecv,
                      (void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       cudaStream_t stream));

// Since 2.31 every collective has a second form with a per-call configuration. NULL means no configuration.
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclAllReduceConfig,
                      (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                       ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclReduceScatterConfig,
                      (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                       ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclAllGatherConfig,
                      (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
                       cudaStream_t stream, const ncclCollConfig_t* config));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclReduceConfig,
                      (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                       int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclBroadcastConfig,
                      (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                       ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclAlltoAllConfig,
                      (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                       cudaStream_t stream, const ncclCollConfig_t* config));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclGatherConfig,
                      (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                       ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclScatterConfig,
                      (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                       ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config));

NCCL_STANDIN_FUNCTION(ncclResult_t, ncclSetEncryption, (const ncclEncryptionConfig_t* config));

NCCL_STANDIN_FUNCTION(ncclResult_t, ncclGroupStart, (void));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclGroupEnd, (void));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * simInfo));

NCCL_STANDIN_FUNCTION(ncclResult_t, ncclRedOpCreatePreMulSum,
                      (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
                       ncclComm_t comm));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm));

NCCL_STANDIN_FUNCTION(ncclResult_t, ncclMemAlloc, (void** ptr, size_t size));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclMemFree, (void* ptr));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommRegister, (const ncclComm_t comm, void* buff, size_t size, void** handle));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void* handle));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommWindowRegister,
                      (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclWinGetUserPtr, (ncclComm_t comm, ncclWindow_t win, void** outUserPtr));

NCCL_STANDIN_FUNCTION(ncclResult_t, ncclPutSignal,
                      (const void* localbuff, size_t count, ncclDataType_t datatype, int peer, ncclWindow_t peerWin,
                       size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                       cudaStream_t stream));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclSignal,
                      (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclWaitSignal,
                      (int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm, cudaStream_t stream));

NCCL_STANDIN_FUNCTION(ncclResult_t, ncclParamBind, (ncclParamHandle_t * handle, const char* key));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclParamGetI8, (ncclParamHandle_t handle, int8_t* value));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclParamGetI16, (ncclParamHandle_t handle, int16_t* value));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclParamGetI32, (ncclParamHandle_t handle, int32_t* value));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclParamGetI64, (ncclParamHandle_t handle, int64_t* value));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclParamGetU8, (ncclParamHandle_t handle, uint8_t* value));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclParamGetU16, (ncclParamHandle_t handle, uint16_t* value));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclParamGetU32, (ncclParamHandle_t handle, uint32_t* value));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclParamGetU64, (ncclParamHandle_t handle, uint64_t* value));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclParamGetStr, (ncclParamHandle_t handle, const char** value));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclParamGet, (ncclParamHandle_t handle, void* value, int maxLen, int* len));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclParamGetParameter, (const char* key, const char** value, int* len));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclParamGetAllParameterKeys, (const char*** keys, int* count));
NCCL_STANDIN_FUNCTION(void, ncclParamDumpAll, (void));

#ifdef __cplusplus
}
#endif

#endif  // NCCL_H_
