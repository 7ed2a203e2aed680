// Linked into the library of a version beyond ours: a function whose name nobody knows, which stands on known ones.
#include <nccl.h>

#include "tests/standin/nccl/comm.h"

extern "C" ncclResult_t ncclAllGatherEverything(const void* send, void* recv, size_t count, ncclDataType_t type,
                                                ncclComm_t comm, cudaStream_t stream);
STANDIN_API(ncclResult_t, ncclAllGatherEverything,
            (const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)) {
  const ncclResult_t result = ncclAllGather(send, recv, count, type, comm, stream);
  standin::Info("all gathered: %d", result);  // no tail call: the inner one comes from this library
  return result;
}
