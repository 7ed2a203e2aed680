// Shared by the NCCL libraries of the recorder's tests and benchmarks: communicators that know their size and rank, and
// calls that do nothing. Each library adds its operations. No NCCL header is needed.
#pragma once

#define API extern "C" __attribute__((weak, visibility("default")))

struct Comm {
  int size, rank;
  unsigned long reached;  // number of operations, if the library counts them
};
struct UniqueId {
  char bytes[128];
};

static Comm g_comms[4096];
static int g_used, g_ids;

API int ncclGetVersion(int* version) {
  *version = 22809;
  return 0;
}
API int ncclCommGetAsyncError(Comm*, int* error) {
  *error = 0;
  return 0;
}
API int ncclGetUniqueId(UniqueId* id) {
  *id = UniqueId();
  id->bytes[0] = 1;
  id->bytes[1] = static_cast<char>(__atomic_add_fetch(&g_ids, 1, __ATOMIC_RELAXED));
  id->bytes[2] = static_cast<char>(g_ids >> 8);
  return 0;
}
API int ncclCommInitRank(Comm** comm, int size, UniqueId, int rank) {
  Comm* made = &g_comms[__atomic_fetch_add(&g_used, 1, __ATOMIC_RELAXED) % 4096];
  *made = {size, rank, 0};
  *comm = made;
  return 0;
}
API int ncclCommUserRank(const Comm* comm, int* value) {
  *value = comm->rank;
  return 0;
}
API int ncclCommCount(const Comm* comm, int* value) {
  *value = comm->size;
  return 0;
}
API int ncclCommCuDevice(const Comm*, int* value) {
  *value = 0;
  return 0;
}
API int ncclCommDestroy(Comm*) { return 0; }
API int ncclGroupStart() { return 0; }
API int ncclGroupEnd() { return 0; }
