// The host side of NCCL's device interface: the exported names, with opaque structures. No kernel can run on the
// stand-in.
#pragma once

#include <nccl.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ncclTeam {
  int nRanks, rank, stride;
} ncclTeam_t;
typedef uint32_t ncclCftLeId;
typedef enum { NCCL_CFT_TEAM_FLAT, NCCL_CFT_TEAM_HIER_MULTIMEM, NCCL_CFT_TEAM_HIER_LSA } ncclCftTeamMode_t;
typedef struct ncclDevCommRequirements ncclDevCommRequirements_t;
typedef struct ncclDevComm ncclDevComm_t;
typedef struct ncclDevResourceRequirements ncclDevResourceRequirements_t;
typedef struct ncclLsaBarrierHandle ncclLsaBarrierHandle_t;
typedef struct ncclGinBarrierHandle ncclGinBarrierHandle_t;
typedef struct ncclLLA2AHandle ncclLLA2AHandle_t;
typedef struct ncclGinOutboxHandle ncclGinOutboxHandle_t;
typedef struct ncclGinInboxA2AHandle ncclGinInboxA2AHandle_t;

#define NCCL_COMM_PROPERTIES_MAGIC 0xcafebeef
typedef struct ncclCommProperties {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int rank;
  int nRanks;
  int cudaDev;
  int nvmlDev;
  bool deviceApiSupport;
  bool multimemSupport;
  int ginType;
  int nLsaTeams;
  bool hostRmaSupport;
  int railedGinType;
  uint64_t commHash;
  int ginMinStride;
  int ginConnectionType;
  bool ginSupport[64];
  size_t devCommRuntimeVersionSize;
  bool cftSupport;
  bool cftMulticastSupport;
  bool cftCountedSupport;
} ncclCommProperties_t;

NCCL_STANDIN_FUNCTION(ncclResult_t, ncclCommQueryProperties, (ncclComm_t comm, ncclCommProperties_t* properties));
NCCL_STANDIN_FUNCTION(ncclTeam_t, ncclTeamWorld, (ncclComm_t comm));
NCCL_STANDIN_FUNCTION(ncclTeam_t, ncclTeamLsa, (ncclComm_t comm));
NCCL_STANDIN_FUNCTION(ncclTeam_t, ncclTeamRail, (ncclComm_t comm));
NCCL_STANDIN_FUNCTION(ncclTeam_t, ncclTeamCft, (ncclComm_t comm, ncclCftTeamMode_t mode));
NCCL_STANDIN_FUNCTION(ncclTeam_t, ncclTeamCftMultimem, (ncclComm_t comm));
NCCL_STANDIN_FUNCTION(int, ncclTeamRankToWorld, (ncclComm_t comm, ncclTeam_t team, int rank));
NCCL_STANDIN_FUNCTION(int, ncclTeamRankToLsa, (ncclComm_t comm, ncclTeam_t team, int rank));
NCCL_STANDIN_FUNCTION(int, ncclLLA2ACalcSlots, (int maxElts, int maxEltSize));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclDevCommCreate,
                      (ncclComm_t comm, const ncclDevCommRequirements_t* requirements, ncclDevComm_t* devComm));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclDevCommDestroy, (ncclComm_t comm, const ncclDevComm_t* devComm));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclGetLsaDevicePointer,
                      (ncclWindow_t window, size_t offset, int lsaRank, void** pointer));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclGetPeerDevicePointer,
                      (ncclWindow_t window, size_t offset, int peer, void** pointer));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclGetLsaMultimemDevicePointer,
                      (ncclWindow_t window, size_t offset, void** pointer));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclGetMultimemDevicePointer,
                      (ncclWindow_t window, size_t offset, void* multimem, void** pointer));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclGetPeerDeviceLeInfo,
                      (ncclWindow_t window, size_t offset, int peerWorld, ncclCftLeId* leId, size_t* leOffset));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclGetMultimemDeviceLeInfo,
                      (ncclWindow_t window, size_t offset, ncclCftLeId* leId, size_t* leOffset));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclGetCftDeviceLeInfo,
                      (ncclWindow_t window, size_t offset, int peerCft, ncclTeam_t cftTeam, ncclCftLeId* leId,
                       size_t* leOffset));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclLsaBarrierCreateRequirement,
                      (ncclTeam_t team, int nBarriers, ncclLsaBarrierHandle_t* handle,
                       ncclDevResourceRequirements_t* requirements));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclGinBarrierCreateRequirement,
                      (ncclComm_t comm, ncclTeam_t team, int nBarriers, ncclGinBarrierHandle_t* handle,
                       ncclDevResourceRequirements_t* requirements));
NCCL_STANDIN_FUNCTION(ncclResult_t, ncclLLA2ACreateRequirement,
                      (int nBlocks, int nSlots, ncclLLA2AHandle_t* handle,
                       ncclDevResourceRequirements_t* requirements));

#ifdef __cplusplus
}
#endif
