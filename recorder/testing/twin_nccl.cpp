// One of two NCCL libraries with the same name that a process may have loaded. Each library knows only its own
// communicators. Like the real NCCL, each operation queries asynchronous errors. On request, the library calls the
// caller back.
//   LOCKSTEP_TWIN: 1 or 2
#include <stddef.h>

#define API extern "C" __attribute__((weak, visibility("default")))

struct Comm {
  int twin, rank, size;
};
struct UniqueId {
  char bytes[128];
};

static Comm g_comms[2048];
static int g_used;

API int ncclGetVersion(int* version) {
  *version = 22800 + LOCKSTEP_TWIN;
  return 0;
}
API const char* ncclGetErrorString(int) { return "twin"; }
API int ncclCommGetAsyncError(Comm* comm, int* error) {
  *error = 0;
  return comm != nullptr && comm->twin == LOCKSTEP_TWIN ? 0 : 4;
}
API int ncclGetUniqueId(UniqueId* id) {
  *id = UniqueId();
  id->bytes[0] = LOCKSTEP_TWIN;
  return 0;
}
API int ncclCommInitRank(Comm** comm, int size, UniqueId id, int rank) {
  if (comm == nullptr || id.bytes[0] != LOCKSTEP_TWIN) return 4;
  Comm* made = &g_comms[__atomic_fetch_add(&g_used, 1, __ATOMIC_RELAXED) % 2048];
  *made = {LOCKSTEP_TWIN, rank, size};
  *comm = made;
  return 0;
}
API int ncclCommInitAll(Comm** comms, int devices, const int*) {
  UniqueId id;
  if (ncclGetUniqueId(&id) != 0) return 3;
  for (int i = 0; i < devices; ++i) {
    if (ncclCommInitRank(&comms[i], devices, id, i) != 0) return 3;
  }
  return 0;
}
API int ncclCommUserRank(const Comm* comm, int* rank) {
  if (comm == nullptr || comm->twin != LOCKSTEP_TWIN) return 4;
  *rank = comm->rank;
  return 0;
}
API int ncclCommCount(const Comm* comm, int* size) {
  if (comm == nullptr || comm->twin != LOCKSTEP_TWIN) return 4;
  *size = comm->size;
  return 0;
}
API int ncclCommCuDevice(const Comm* comm, int* device) {
  if (comm == nullptr || comm->twin != LOCKSTEP_TWIN) return 4;
  *device = 0;
  return 0;
}
API int ncclCommDestroy(Comm* comm) {
  if (comm != nullptr) comm->twin = 0;
  return 0;
}
API int ncclCommAbort(Comm* comm) { return ncclCommDestroy(comm); }
API int ncclGroupStart() { return 0; }
API int ncclGroupEnd() { return 0; }
// With a count of 77, `send` is a function to call.
API int ncclAllReduce(const void* send, void*, size_t count, int, int, Comm* comm, void*) {
  if (comm == nullptr || comm->twin != LOCKSTEP_TWIN) return 4;
  int error = 0;
  const int result = ncclCommGetAsyncError(comm, &error);
  if (result == 0 && count == 77) reinterpret_cast<void (*)()>(const_cast<void*>(send))();
  return result;
}
API int ncclSend(const void*, size_t, int, int, Comm* comm, void*) {
  int error = 0;
  return ncclCommGetAsyncError(comm, &error);
}
API int ncclRecv(void*, size_t, int, int, Comm* comm, void*) {
  int error = 0;
  return ncclCommGetAsyncError(comm, &error);
}

// The functions' second names (pncclX), at the same addresses.
#define SECOND(NAME) __asm__(".globl p" #NAME "\n.set p" #NAME ", " #NAME "\n.type p" #NAME ", %function")
SECOND(ncclGetVersion);
SECOND(ncclGetUniqueId);
SECOND(ncclCommInitRank);
SECOND(ncclAllReduce);
SECOND(ncclCommDestroy);
SECOND(ncclGroupStart);
SECOND(ncclGroupEnd);
