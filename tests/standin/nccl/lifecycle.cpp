// Ends communicators and answers queries about them.
#include <unistd.h>

#include "tests/standin/nccl/comm.h"
#include "tests/standin/nccl/level.h"

namespace standin {

namespace {

// Waits until no operation of the communicator runs and no background work uses it. After an abort, this takes a
// bounded time.
void WaitUntilIdle(ncclComm& comm) {
  while (comm.running.load() != 0 || comm.async_result.load() == ncclInProgress) {
    usleep(1000);
  }
}

ncclResult_t Query(ncclComm_t handle, int* value, int ncclComm::*field) {
  CommPtr comm;
  if (const ncclResult_t ready = EnsureReady(handle, &comm); ready != ncclSuccess) {
    return ready;
  }
  if (!value) {
    return ncclInvalidArgument;
  }
  *value = (*comm).*field;
  return ncclSuccess;
}

}  // namespace

}  // namespace standin

using standin::CommPtr;

STANDIN_API(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int* count)) {
  return standin::Query(comm, count, &ncclComm::nranks);
}
STANDIN_API(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int* rank)) {
  return standin::Query(comm, rank, &ncclComm::rank);
}
STANDIN_API(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int* device)) {
  return standin::Query(comm, device, &ncclComm::device);
}

STANDIN_API(ncclResult_t, ncclCommFinalize, (ncclComm_t handle)) {
  if (!handle) {
    return ncclSuccess;
  }
  CommPtr comm;
  if (const ncclResult_t ready = standin::EnsureReady(handle, &comm); ready != ncclSuccess) {
    return standin::GroupError(ready);
  }
  if (comm->revoked.load()) {
    standin::Warn(comm.get(), "a revoked communicator cannot be finalized");
    return standin::GroupError(ncclInvalidUsage);
  }
  if (comm->finalized.exchange(true)) {
    return standin::GroupError(ncclInvalidArgument);
  }
  return standin::AddJob({comm,
                          [comm] {
                            standin::WaitFor(comm->last_launch);
                            return ncclSuccess;
                          },
                          [](ncclResult_t) {}});
}

STANDIN_API(ncclResult_t, ncclCommDestroy, (ncclComm_t handle)) {
  if (!handle) {
    return ncclSuccess;
  }
  const CommPtr comm = standin::FindComm(handle);
  if (!comm) {
    return ncclInvalidArgument;
  }
  // Like NCCL, gets the state from the public function.
  ncclResult_t state = ncclSuccess;
  ncclCommGetAsyncError(handle, &state);
  while (comm->async_result.load() == ncclInProgress) {
    usleep(1000);
  }
  standin::WaitFor(comm->last_launch);
  standin::ProfilerFinalize(*comm);
  standin::ForgetComm(handle);
  return ncclSuccess;
}

STANDIN_API(ncclResult_t, ncclCommAbort, (ncclComm_t handle)) {
  if (!handle) {
    return ncclSuccess;
  }
  const CommPtr comm = standin::FindComm(handle);
  if (!comm) {
    return ncclInvalidArgument;
  }
  comm->aborted.store(true);
  standin::WaitUntilIdle(*comm);
  standin::ProfilerFinalize(*comm);
  standin::ForgetComm(handle);
  return ncclSuccess;
}

STANDIN_API(ncclResult_t, ncclCommRevoke, (ncclComm_t handle, int flags)) {
  if (!handle) {
    return ncclSuccess;
  }
  CommPtr comm;
  if (const ncclResult_t ready = standin::EnsureReady(handle, &comm); ready != ncclSuccess) {
    return ready;
  }
  if (flags != NCCL_REVOKE_DEFAULT || comm->finalized.load() || comm->revoked.exchange(true)) {
    return ncclInvalidArgument;
  }
  standin::WaitUntilIdle(*comm);
  return ncclSuccess;
}

// The stand-in has no resources to release, but a suspended communicator is unusable.
STANDIN_API(ncclResult_t, ncclCommSuspend, (ncclComm_t handle, int flags)) {
  CommPtr comm;
  if (const ncclResult_t ready = standin::EnsureReady(handle, &comm); ready != ncclSuccess) {
    return ready;
  }
  if (flags != NCCL_SUSPEND_MEM) {
    return ncclInvalidArgument;
  }
  return comm->suspended.exchange(true) ? ncclInvalidUsage : ncclSuccess;
}
STANDIN_API(ncclResult_t, ncclCommResume, (ncclComm_t handle)) {
  CommPtr comm;
  if (const ncclResult_t ready = standin::EnsureReady(handle, &comm); ready != ncclSuccess) {
    return ready;
  }
  return comm->suspended.exchange(false) ? ncclSuccess : ncclInvalidUsage;
}
STANDIN_API(ncclResult_t, ncclCommMemStats, (ncclComm_t handle, ncclCommMemStat_t stat, uint64_t* value)) {
  CommPtr comm;
  if (const ncclResult_t ready = standin::EnsureReady(handle, &comm); ready != ncclSuccess) {
    return ready;
  }
  if (!value || stat < ncclStatGpuMemSuspend || stat > ncclStatGpuMemTotal) {
    return ncclInvalidArgument;
  }
  *value = 0;
  return ncclSuccess;
}

STANDIN_API(ncclResult_t, ncclGetVersion, (int* version)) {
  if (!version) {
    return ncclInvalidArgument;
  }
  *version = standin::kVersion;
  return ncclSuccess;
}

STANDIN_API(const char*, ncclGetErrorString, (ncclResult_t result)) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    case ncclTimeout: return "timeout";
    default: return "unknown result code";
  }
}

STANDIN_API(void, ncclResetDebugInit, ()) {}
// Some NCCL versions export this function, without a twin.
extern "C" __attribute__((visibility(STANDIN_VISIBILITY))) void ncclResetDebugInitInternal() {}

STANDIN_API(ncclResult_t, ncclSetEncryption, (const ncclEncryptionConfig_t* config)) {
  return config == nullptr || config->magic != NCCL_API_MAGIC ? ncclInvalidArgument : ncclSuccess;
}
