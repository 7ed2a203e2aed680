// Functions of an NCCL version newer than all known versions: a function with an unknown name that calls known
// functions, and a known name with another prototype.
#include <nccl.h>

#include "tests/standin/nccl/comm.h"

extern "C" ncclResult_t ncclAlltoAllv(const void*, const size_t*, const size_t*, void*, const size_t*, const size_t*,
                                      const void*, ncclDataType_t, ncclComm_t, cudaStream_t);
extern "C" ncclResult_t ncclAllGatherEverything(const void* send, void* recv, size_t count, ncclDataType_t type,
                                                ncclComm_t comm, cudaStream_t stream);
STANDIN_API(ncclResult_t, ncclAllGatherEverything,
            (const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)) {
  const ncclResult_t result = ncclAllGather(send, recv, count, type, comm, stream);
  standin::Info("all gathered: %d", result);  // prevents a tail call, so that the inner call comes from this library
  return result;
}

STANDIN_API(ncclResult_t, ncclAlltoAllv,
            (const void* send, const size_t* send_counts, const size_t* send_offsets, void* recv,
             const size_t* recv_counts, const size_t* recv_offsets, const void* relay, ncclDataType_t type,
             ncclComm_t comm, cudaStream_t stream)) {
  int ranks = 0;
  const bool right = send != nullptr && recv != nullptr && send_counts[1] == recv_counts[1] &&
                     send_offsets[1] == recv_offsets[1] && relay == send && type == ncclFloat && stream != nullptr &&
                     ncclCommCount(comm, &ranks) == ncclSuccess && ranks == 2;
  return right ? ncclSuccess : ncclInvalidArgument;
}
