// The few NCCL functions that `lockstep doctor` calls to check whether calls are recorded. They do nothing, and work on
// hosts without NCCL or a GPU. This library must not be on a library path. Prototypes: nccl.h of NCCL 2.28.
#include <stddef.h>
#include <string.h>

#define SHOWN extern "C" __attribute__((visibility("default")))

extern "C" {
struct ncclUniqueId {
  char internal[128];
};
struct ncclComm {
  int rank, size;
};
typedef ncclComm* ncclComm_t;
}
static ncclComm the_comm;

SHOWN int ncclGetVersion(int* version) { return *version = 22809, 0; }
SHOWN const char* ncclGetErrorString(int result) { return result == 0 ? "no error" : "error"; }
SHOWN int ncclGetUniqueId(ncclUniqueId* id) {
  memset(id, 0, sizeof *id);
  memcpy(id->internal, "lockstep doctor", 16);
  return 0;
}
SHOWN int ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  (void)id;
  the_comm.rank = rank;
  the_comm.size = size;
  *comm = &the_comm;
  return 0;
}
SHOWN int ncclCommUserRank(ncclComm_t comm, int* rank) { return *rank = comm->rank, 0; }
SHOWN int ncclCommCount(ncclComm_t comm, int* count) { return *count = comm->size, 0; }
SHOWN int ncclCommCuDevice(ncclComm_t comm, int* device) { return (void)comm, *device = 0, 0; }
SHOWN int ncclCommGetAsyncError(ncclComm_t comm, int* error) { return (void)comm, *error = 0, 0; }
SHOWN int ncclAllReduce(const void* send, void* recv, size_t count, int type, int op, ncclComm_t comm, void* stream) {
  (void)send, (void)recv, (void)count, (void)type, (void)op, (void)comm, (void)stream;
  return 0;
}
SHOWN int ncclCommDestroy(ncclComm_t comm) { return (void)comm, 0; }
