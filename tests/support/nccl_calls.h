// NCCL's calls as programs of tests and benchmarks declare them that are built without its header.
#ifndef LOCKSTEP_TESTS_SUPPORT_NCCL_CALLS_H_
#define LOCKSTEP_TESTS_SUPPORT_NCCL_CALLS_H_

struct UniqueId {
  char bytes[128];
};
extern "C" {
int ncclGetUniqueId(UniqueId*);
int ncclCommInitRank(void**, int, UniqueId, int);
int ncclCommDestroy(void*);
int ncclAllReduce(const void*, void*, unsigned long, int, int, void*, void*);
int ncclSend(const void*, unsigned long, int, int, void*, void*);
int ncclRecv(void*, unsigned long, int, int, void*, void*);
int ncclGroupStart();
int ncclGroupEnd();
}

#endif  // LOCKSTEP_TESTS_SUPPORT_NCCL_CALLS_H_
