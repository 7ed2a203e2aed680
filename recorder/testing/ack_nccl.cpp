// An NCCL that writes to a pipe, once it is entered, which operation it was given: the record of that operation is
// published by then. Its operations are told by their count, which the host sets to what it wants to be told back.
#include <stdlib.h>
#include <unistd.h>

struct Comm {
  int size, rank;
};
struct UniqueId {
  char bytes[128];
};

#define API extern "C" __attribute__((weak, visibility("default")))

static int g_pipe = -1;

static int Told(unsigned long count) {
  if (g_pipe < 0) {
    const char* text = getenv("ACK_PIPE");
    g_pipe = text != nullptr ? atoi(text) : 2;
  }
  return write(g_pipe, &count, sizeof(count)) == sizeof(count) ? 0 : 3;
}

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
  g_comms[at] = {size, rank};
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
API int ncclAllReduce(const void*, void*, unsigned long count, int, int, Comm*, void*) {
  return Told(count);
}
API int ncclSend(const void*, unsigned long count, int, int, Comm*, void*) {
  return Told(count);
}
API int ncclRecv(void*, unsigned long count, int, int, Comm*, void*) {
  return Told(count);
}
