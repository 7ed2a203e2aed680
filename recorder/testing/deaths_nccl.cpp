// An NCCL that counts calls and calls the program back from inside one, for programs that end or jump there.
#include <stddef.h>

#include "tests/support/stub_nccl.h"

extern "C" {
__attribute__((visibility("default"))) void (*deaths_callback)();  // ncclAllReduce calls this function
}
API unsigned long DeathsReached(const Comm* comm) { return comm->reached; }

API int ncclAllReduce(const void*, void*, size_t, int, int, Comm* comm, void*) {
  __atomic_fetch_add(&comm->reached, 1, __ATOMIC_RELAXED);
  int error;
  ncclCommGetAsyncError(comm, &error);
  void (*callback)() = __atomic_load_n(&deaths_callback, __ATOMIC_RELAXED);
  if (callback != nullptr) callback();
  return error;
}
API int ncclSend(const void*, size_t, int, int, Comm* comm, void*) {
  __atomic_fetch_add(&comm->reached, 1, __ATOMIC_RELAXED);
  return 0;
}
API int ncclRecv(void*, size_t, int, int, Comm* comm, void*) {
  __atomic_fetch_add(&comm->reached, 1, __ATOMIC_RELAXED);
  return 0;
}
