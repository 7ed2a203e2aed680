// Declarations of NCCL's calls for test programs and benchmarks that are built without its header.
#pragma once

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
