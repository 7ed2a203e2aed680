// Makes over a million recorded calls with new threads, communicators, children, streams, groups and events, and
// prints the number of allocations. Two getppid calls enclose this part, so that a tracer can count its system calls.
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>

struct UniqueId {
  char bytes[128];
};
extern "C" {
int ncclGetUniqueId(UniqueId*);
int ncclCommInitRank(void**, int, UniqueId, int);
int ncclCommSplit(void*, int, int, void**, void*);
int ncclCommGetAsyncError(void*, int*);
int ncclAllReduce(const void*, void*, size_t, int, int, void*, void*);
int ncclSend(const void*, size_t, int, int, void*, void*);
int ncclRecv(void*, size_t, int, int, void*, void*);
int ncclGroupStart();
int ncclGroupEnd();
int ncclCommDestroy(void*);
int cudaStreamCreate(void**);
int cudaStreamDestroy(void*);
int cudaEventRecord(void*, void*);
int cudaStreamWaitEvent(void*, void*, unsigned);
int cudaStreamSynchronize(void*);
int cudaDeviceSynchronize();
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}

namespace {

std::atomic<long> g_allocations{0};
constexpr int kThreads = 8;
constexpr int kRounds = 63;
std::atomic<int> g_ready{0}, g_over{0};
std::atomic<bool> g_go{false}, g_counted{false};

void Round(void* comm, void* other, void* stream, void* event, int calls) {
  for (int i = 0; i < calls; ++i) ncclAllReduce(nullptr, nullptr, 1024, 7, 0, comm, stream);
  for (int g = 0; g < calls / 16; ++g) {
    ncclGroupStart();
    for (int peer = 0; peer < 8; ++peer) {
      ncclSend(nullptr, 8, 7, peer, comm, stream);
      ncclRecv(nullptr, 8, 7, peer, comm, stream);
    }
    ncclAllReduce(nullptr, nullptr, 9, 7, 0, other, stream);
    ncclGroupEnd();
  }
  int error = 0;
  ncclCommGetAsyncError(comm, &error);
  cudaEventRecord(event, stream);
  cudaStreamWaitEvent(reinterpret_cast<void*>(0x7000), event, 0);
  cudaStreamSynchronize(stream);
  cudaDeviceSynchronize();
}

// A thread's whole life with NCCL: it creates and destroys communicators and streams.
void Live(int rounds, int calls) {
  UniqueId id;
  ncclGetUniqueId(&id);
  void *comm = nullptr, *other = nullptr;
  ncclCommInitRank(&comm, 8, id, 0);
  ncclCommSplit(comm, 1, 0, &other, nullptr);
  for (int round = 0; round < rounds; ++round) {
    void* stream = nullptr;
    cudaStreamCreate(&stream);
    Round(comm, other, stream, reinterpret_cast<void*>(0x9000 + 16l * round), calls);
    cudaStreamDestroy(stream);
  }
  ncclCommDestroy(other);
  ncclCommDestroy(comm);
}

}  // namespace

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
extern "C" void* memalign(size_t align, size_t bytes) {
  ++g_allocations;
  return __libc_memalign(align, bytes);
}
extern "C" void* aligned_alloc(size_t align, size_t bytes) { return memalign(align, bytes); }
extern "C" int posix_memalign(void** at, size_t align, size_t bytes) {
  *at = memalign(align, bytes);
  return *at == nullptr ? 12 : 0;
}
extern "C" void free(void* old) { __libc_free(old); }

int main() {
  std::thread threads[kThreads];
  // The threads exist and have made no call yet.
  for (std::thread& thread : threads) {
    thread = std::thread([] {
      ++g_ready;
      while (!g_go.load()) sched_yield();
      Live(kRounds, 1024);
      ++g_over;
      while (!g_counted.load()) usleep(1000);  // the C library's work at a thread's end must not count
    });
  }
  while (g_ready.load() != kThreads) sched_yield();
  Live(1, 32);
  syscall(SYS_getppid);
  const long before = g_allocations.load();
  g_go = true;
  while (g_over.load() != kThreads) usleep(1000);
  const long after = g_allocations.load();
  syscall(SYS_getppid);
  g_counted = true;
  for (std::thread& thread : threads) thread.join();
  printf("%ld\n", after - before);
  return 0;
}
