// Implements parameters and the host side of the device interface.
#include <nccl_device.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <cstdlib>

#include "tests/standin/nccl/comm.h"

struct ncclParamHandle {
  const char* key;
};

namespace {

// The NCCL parameters that the stand-in reads.
ncclParamHandle parameters[] = {{"NCCL_COMM_BLOCKING"}, {"NCCL_DEBUG"}};

template <class T>
ncclResult_t GetNumber(ncclParamHandle_t handle, T* value) {
  if (!handle || !value) {
    return ncclInvalidArgument;
  }
  const char* text = getenv(handle->key);
  *value = static_cast<T>(text ? strtoll(text, nullptr, 0) : 0);
  return ncclSuccess;
}

// There is one node, whose ranks all reach each other. So the whole communicator is one team, and each rank is its own
// rail.
ncclTeam_t Team(ncclComm_t handle, bool whole) {
  const auto comm = standin::FindComm(handle);
  if (!comm) {
    return {0, 0, 0};
  }
  return whole ? ncclTeam_t{comm->nranks, comm->rank, 1} : ncclTeam_t{1, 0, comm->nranks};
}

int RankOf(ncclComm_t handle, ncclTeam_t team, int rank) {
  const auto comm = standin::FindComm(handle);
  return comm ? comm->rank + (rank - team.rank) * team.stride : -1;
}

}  // namespace

STANDIN_API(ncclResult_t, ncclParamBind, (ncclParamHandle_t * handle, const char* key)) {
  if (!handle || !key) {
    return ncclInvalidArgument;
  }
  for (ncclParamHandle& parameter : parameters) {
    if (strcmp(parameter.key, key) == 0) {
      *handle = &parameter;
      return ncclSuccess;
    }
  }
  return ncclInvalidArgument;
}

#define STANDIN_PARAM(suffix, type)                                                           \
  STANDIN_API(ncclResult_t, ncclParamGet##suffix, (ncclParamHandle_t handle, type * value)) { \
    return GetNumber(handle, value);                                                          \
  }
STANDIN_PARAM(I8, int8_t)
STANDIN_PARAM(I16, int16_t)
STANDIN_PARAM(I32, int32_t)
STANDIN_PARAM(I64, int64_t)
STANDIN_PARAM(U8, uint8_t)
STANDIN_PARAM(U16, uint16_t)
STANDIN_PARAM(U32, uint32_t)
STANDIN_PARAM(U64, uint64_t)
#undef STANDIN_PARAM

STANDIN_API(ncclResult_t, ncclParamGetStr, (ncclParamHandle_t handle, const char** value)) {
  if (!handle || !value) {
    return ncclInvalidArgument;
  }
  const char* text = getenv(handle->key);
  *value = text ? text : "";
  return ncclSuccess;
}

STANDIN_API(ncclResult_t, ncclParamGet, (ncclParamHandle_t handle, void* value, int limit, int* length)) {
  const char* text = nullptr;
  const ncclResult_t result = ncclParamGetStr(handle, &text);
  if (result != ncclSuccess || !value || limit < 1 || !length) {
    return ncclInvalidArgument;
  }
  *length = snprintf(static_cast<char*>(value), static_cast<size_t>(limit), "%s", text);
  return *length < limit ? ncclSuccess : ncclInvalidArgument;
}

STANDIN_API(ncclResult_t, ncclParamGetParameter, (const char* key, const char** value, int* length)) {
  ncclParamHandle_t handle = nullptr;
  if (const ncclResult_t bound = ncclParamBind(&handle, key); bound != ncclSuccess) {
    return bound;
  }
  const ncclResult_t result = ncclParamGetStr(handle, value);
  if (result == ncclSuccess && length) {
    *length = static_cast<int>(strlen(*value));
  }
  return result;
}

STANDIN_API(ncclResult_t, ncclParamGetAllParameterKeys, (const char*** keys, int* count)) {
  static const char* all[] = {parameters[0].key, parameters[1].key};
  if (!keys || !count) {
    return ncclInvalidArgument;
  }
  *keys = all;
  *count = 2;
  return ncclSuccess;
}

STANDIN_API(void, ncclParamDumpAll, ()) {
  for (const ncclParamHandle& parameter : parameters) {
    const char* text = getenv(parameter.key);
    fprintf(stderr, "%s=%s\n", parameter.key, text ? text : "");
  }
}

STANDIN_API(ncclResult_t, ncclCommQueryProperties, (ncclComm_t handle, ncclCommProperties_t* properties)) {
  standin::CommPtr comm;
  if (const ncclResult_t ready = standin::EnsureReady(handle, &comm); ready != ncclSuccess) {
    return ready;
  }
  if (!properties || properties->magic != NCCL_COMM_PROPERTIES_MAGIC) {
    return ncclInvalidArgument;
  }
  ncclCommProperties_t known = {};
  known.size = properties->size;
  known.magic = properties->magic;
  known.version = properties->version;
  known.rank = comm->rank;
  known.nRanks = comm->nranks;
  known.cudaDev = comm->device;
  known.nvmlDev = comm->device;
  known.nLsaTeams = 1;
  memcpy(properties, &known, std::min(properties->size, sizeof known));
  return ncclSuccess;
}

STANDIN_API(ncclTeam_t, ncclTeamWorld, (ncclComm_t comm)) { return Team(comm, true); }
STANDIN_API(ncclTeam_t, ncclTeamLsa, (ncclComm_t comm)) { return Team(comm, true); }
STANDIN_API(ncclTeam_t, ncclTeamRail, (ncclComm_t comm)) { return Team(comm, false); }
STANDIN_API(ncclTeam_t, ncclTeamCft, (ncclComm_t comm, ncclCftTeamMode_t)) { return Team(comm, true); }
STANDIN_API(ncclTeam_t, ncclTeamCftMultimem, (ncclComm_t comm)) { return Team(comm, false); }
STANDIN_API(int, ncclTeamRankToWorld, (ncclComm_t comm, ncclTeam_t team, int rank)) { return RankOf(comm, team, rank); }
STANDIN_API(int, ncclTeamRankToLsa, (ncclComm_t comm, ncclTeam_t team, int rank)) { return RankOf(comm, team, rank); }
STANDIN_API(int, ncclLLA2ACalcSlots, (int elements, int bytes)) { return elements * ((bytes + 7) / 8); }

// Kernels cannot run here, so creating a device communicator fails.
STANDIN_API(ncclResult_t, ncclDevCommCreate, (ncclComm_t handle, const ncclDevCommRequirements_t*, ncclDevComm_t*)) {
  standin::CommPtr comm;
  const ncclResult_t ready = standin::EnsureReady(handle, &comm);
  return ready == ncclSuccess ? ncclInvalidUsage : ready;
}
STANDIN_API(ncclResult_t, ncclDevCommDestroy, (ncclComm_t, const ncclDevComm_t*)) { return ncclInvalidUsage; }
STANDIN_API(ncclResult_t, ncclGetLsaDevicePointer, (ncclWindow_t, size_t, int, void**)) { return ncclInvalidUsage; }
STANDIN_API(ncclResult_t, ncclGetPeerDevicePointer, (ncclWindow_t, size_t, int, void**)) { return ncclInvalidUsage; }
STANDIN_API(ncclResult_t, ncclGetLsaMultimemDevicePointer, (ncclWindow_t, size_t, void**)) { return ncclInvalidUsage; }
STANDIN_API(ncclResult_t, ncclGetMultimemDevicePointer, (ncclWindow_t, size_t, void*, void**)) {
  return ncclInvalidUsage;
}
STANDIN_API(ncclResult_t, ncclGetPeerDeviceLeInfo, (ncclWindow_t, size_t, int, ncclCftLeId*, size_t*)) {
  return ncclInvalidUsage;
}
STANDIN_API(ncclResult_t, ncclGetMultimemDeviceLeInfo, (ncclWindow_t, size_t, ncclCftLeId*, size_t*)) {
  return ncclInvalidUsage;
}
// Stores its arguments in the result, so that a test notices a forwarder that loses one.
STANDIN_API(ncclResult_t, ncclGetCftDeviceLeInfo,
            (ncclWindow_t window, size_t offset, int peer, ncclTeam_t team, ncclCftLeId* id, size_t* le_offset)) {
  if (window == nullptr || id == nullptr || le_offset == nullptr) {
    return ncclInvalidArgument;
  }
  *id = static_cast<ncclCftLeId>(peer * team.stride + team.rank);
  *le_offset = offset + static_cast<size_t>(team.nRanks);
  return ncclSuccess;
}
STANDIN_API(ncclResult_t, ncclLsaBarrierCreateRequirement,
            (ncclTeam_t, int, ncclLsaBarrierHandle_t*, ncclDevResourceRequirements_t*)) {
  return ncclInvalidUsage;
}
STANDIN_API(ncclResult_t, ncclGinBarrierCreateRequirement,
            (ncclComm_t, ncclTeam_t, int, ncclGinBarrierHandle_t*, ncclDevResourceRequirements_t*)) {
  return ncclInvalidUsage;
}
STANDIN_API(ncclResult_t, ncclLLA2ACreateRequirement, (int, int, ncclLLA2AHandle_t*, ncclDevResourceRequirements_t*)) {
  return ncclInvalidUsage;
}
STANDIN_API(ncclResult_t, ncclGinOutboxCreateRequirement,
            (int, int, ncclGinOutboxHandle_t*, ncclDevResourceRequirements_t*)) {
  return ncclInvalidUsage;
}
STANDIN_API(ncclResult_t, ncclGinInboxA2ACreateRequirement,
            (ncclTeam_t, int, int, ncclGinInboxA2AHandle_t*, ncclDevResourceRequirements_t*)) {
  return ncclInvalidUsage;
}
