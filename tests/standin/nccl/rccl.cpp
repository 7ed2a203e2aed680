// Functions that RCCL has beyond NCCL's. They are linked into the library that imitates RCCL.
#include <nccl.h>

#include "tests/standin/nccl/comm.h"

// No header of NCCL declares these functions.
extern "C" ncclResult_t ncclAlltoAllv(const void*, const size_t*, const size_t*, void*, const size_t*, const size_t*,
                                      ncclDataType_t, ncclComm_t, cudaStream_t);

STANDIN_API(ncclResult_t, ncclAllToAll,
            (const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)) {
  return ncclAlltoAll(send, recv, count, type, comm, stream);
}

STANDIN_API(ncclResult_t, ncclAlltoAllv,
            (const void* send, const size_t* send_counts, const size_t* send_offsets, void* recv,
             const size_t* recv_counts, const size_t* recv_offsets, ncclDataType_t type, ncclComm_t comm,
             cudaStream_t stream)) {
  int ranks = 0;
  if (const ncclResult_t asked = ncclCommCount(comm, &ranks); asked != ncclSuccess) {
    return asked;
  }
  const size_t bytes = standin::TypeBytes(type);
  ncclResult_t result = ncclGroupStart();
  for (int r = 0; r < ranks && result == ncclSuccess; ++r) {
    const auto* from = static_cast<const char*>(send) + send_offsets[r] * bytes;
    auto* to = static_cast<char*>(recv) + recv_offsets[r] * bytes;
    result = ncclSend(from, send_counts[r], type, r, comm, stream);
    if (result == ncclSuccess) {
      result = ncclRecv(to, recv_counts[r], type, r, comm, stream);
    }
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result != ncclSuccess ? result : ended;
}

// RCCL's older spelling.
STANDIN_API(ncclResult_t, ncclAllToAllv,
            (const void* send, const size_t* send_counts, const size_t* send_offsets, void* recv,
             const size_t* recv_counts, const size_t* recv_offsets, ncclDataType_t type, ncclComm_t comm,
             cudaStream_t stream)) {
  return ncclAlltoAllv(send, send_counts, send_offsets, recv, recv_counts, recv_offsets, type, comm, stream);
}

STANDIN_API(ncclResult_t, ncclAllReduceWithBias,
            (const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
             cudaStream_t stream, const void* acc)) {
  // RCCL adds `acc` in the same kernel. The caller sees no difference except for the argument.
  return acc == nullptr ? ncclInvalidArgument : ncclAllReduce(send, recv, count, type, op, comm, stream);
}

STANDIN_API(ncclResult_t, mscclLoadAlgo, (const char* path, int* handle, int rank)) {
  if (path == nullptr || handle == nullptr) {
    return ncclInvalidArgument;
  }
  *handle = rank + 1;
  return ncclSuccess;
}
STANDIN_API(ncclResult_t, mscclRunAlgo,
            (const void* send, const size_t*, const size_t*, void* recv, const size_t*, const size_t*, size_t count,
             ncclDataType_t type, int, int, ncclRedOp_t op, int handle, ncclComm_t comm, cudaStream_t stream)) {
  return handle <= 0 ? ncclInvalidUsage : ncclAllReduce(send, recv, count, type, op, comm, stream);
}
STANDIN_API(ncclResult_t, mscclUnloadAlgo, (int handle)) { return handle <= 0 ? ncclInvalidUsage : ncclSuccess; }
