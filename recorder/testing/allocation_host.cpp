// Counts allocations during a million recorded calls of an NCCL that does nothing: prints the number.
#include <stddef.h>
#include <stdio.h>

#include <atomic>

struct UniqueId {
  char bytes[128];
};
extern "C" {
int ncclGetUniqueId(UniqueId*);
int ncclCommInitRank(void**, int, UniqueId, int);
int ncclAllReduce(const void*, void*, size_t, int, int, void*, void*);
int ncclSend(const void*, size_t, int, int, void*, void*);
int ncclRecv(void*, size_t, int, int, void*, void*);
int ncclGroupStart();
int ncclGroupEnd();
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void __libc_free(void*);
}

static std::atomic<long> g_allocations{0};

extern "C" void* malloc(size_t bytes) {
  ++g_allocations;
  return __libc_malloc(bytes);
}
extern "C" void* calloc(size_t count, size_t bytes) {
  ++g_allocations;
  return __libc_calloc(count, bytes);
}
extern "C" void* realloc(void* old, size_t bytes) {
  ++g_allocations;
  return __libc_realloc(old, bytes);
}
extern "C" void free(void* old) {
  __libc_free(old);
}

int main() {
  UniqueId id;
  ncclGetUniqueId(&id);
  void* comm = nullptr;
  const long before = g_allocations.load();
  ncclCommInitRank(&comm, 8, id, 0);
  void* stream = reinterpret_cast<void*>(0x4000);
  for (int i = 0; i < 500000; ++i) ncclAllReduce(nullptr, nullptr, 1024, 7, 0, comm, stream);
  for (int i = 0; i < 31250; ++i) {
    ncclGroupStart();
    for (int peer = 0; peer < 8; ++peer) {
      ncclSend(nullptr, 8, 7, peer, comm, stream);
      ncclRecv(nullptr, 8, 7, peer, comm, stream);
    }
    ncclGroupEnd();
  }
  printf("%ld\n", g_allocations.load() - before);
  return 0;
}
