// An NCCL whose ncclGetVersion waits until an init call has begun. Init calls wait until all members have joined.
#include <unistd.h>

// This file defines these two functions itself, so the stub's are renamed.
#define ncclGetVersion stub_version
#define ncclCommInitRank stub_init
#include "tests/support/stub_nccl.h"
#undef ncclGetVersion
#undef ncclCommInitRank

static int g_entered;

static void AwaitEntered(int wanted) {
  for (int i = 0; i < 10000 && __atomic_load_n(&g_entered, __ATOMIC_ACQUIRE) < wanted; ++i) usleep(1000);
}

API int ncclGetVersion(int* version) {
  AwaitEntered(1);
  *version = 22809;
  return 0;
}
API int ncclCommInitRank(Comm** comm, int size, UniqueId, int rank) {
  Comm* made = &g_comms[rank];
  *made = {size, rank, 0};
  *comm = made;
  __atomic_add_fetch(&g_entered, 1, __ATOMIC_ACQ_REL);
  AwaitEntered(size);
  return 0;
}
API int ncclAllReduce(const void*, void*, unsigned long, int, int, Comm*, void*) { return 0; }
