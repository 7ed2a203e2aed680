// An NCCL that does nothing, so that benchmarks see only the recorder. Like in the real library, each operation calls
// ncclCommGetAsyncError.
#include "tests/support/stub_nccl.h"

API int ncclCommSplit(Comm* parent, int, int, Comm** comm, void*) {
  const int at = __atomic_fetch_add(&g_used, 1, __ATOMIC_RELAXED) % 4096;
  g_comms[at] = *parent;
  *comm = &g_comms[at];
  return 0;
}
API int ncclAllReduce(const void*, void*, unsigned long, int, int, Comm* comm, void*) {
  int error;
  return ncclCommGetAsyncError(comm, &error);
}
API int ncclSend(const void*, unsigned long, int, int, Comm* comm, void*) {
  int error;
  return ncclCommGetAsyncError(comm, &error);
}
API int ncclRecv(void*, unsigned long, int, int, Comm* comm, void*) {
  int error;
  return ncclCommGetAsyncError(comm, &error);
}
