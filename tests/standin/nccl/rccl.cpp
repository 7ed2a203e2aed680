// Linked into the library that plays RCCL: the functions it has beside NCCL's.
#include <nccl.h>

#include "tests/standin/nccl/comm.h"

STANDIN_API(ncclResult_t, ncclAllToAll,
            (const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)) {
  return ncclAlltoAll(send, recv, count, type, comm, stream);
}

STANDIN_API(ncclResult_t, ncclAllToAllv,
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
