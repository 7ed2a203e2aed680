// An NCCL that does nothing, so that a benchmark sees the recorder's own cost alone. It asks itself for asynchronous
// errors on every operation, as the real one does.
struct Comm {
  int size, rank;
};
struct UniqueId {
  char bytes[128];
};

#define API extern "C" __attribute__((weak, visibility("default")))

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
  return 0;
}
static Comm g_comms[64];
static int g_used;
API int ncclCommInitRank(Comm** comm, int size, UniqueId, int rank) {
  const int at = __atomic_fetch_add(&g_used, 1, __ATOMIC_RELAXED) % 64;
  *comm = &g_comms[at];
  g_comms[at] = {size, rank};
  return 0;
}
API int ncclCommSplit(Comm* parent, int, int, Comm** comm, void*) {
  const int at = __atomic_fetch_add(&g_used, 1, __ATOMIC_RELAXED) % 64;
  g_comms[at] = *parent;
  *comm = &g_comms[at];
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
API int ncclCommDestroy(Comm*) {
  return 0;
}
API int ncclGroupStart() {
  return 0;
}
API int ncclGroupEnd() {
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
