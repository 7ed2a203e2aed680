// Another tool, preloaded before or after the recorder. It counts calls and forwards them through RTLD_NEXT.
#include <dlfcn.h>
#include <stddef.h>

#define API extern "C" __attribute__((visibility("default")))

extern "C" {
__attribute__((visibility("default"))) int lockstep_test_hooked = 0;
}

API int ncclAllReduce(const void* send, void* recv, size_t count, int type, int op, void* comm, void* stream) {
  ++lockstep_test_hooked;
  using F = int (*)(const void*, void*, size_t, int, int, void*, void*);
  const auto next = reinterpret_cast<F>(dlsym(RTLD_NEXT, "ncclAllReduce"));
  return next != nullptr ? next(send, recv, count, type, op, comm, stream) : 5;
}

API int cudaFree(void* address) {
  ++lockstep_test_hooked;
  const auto next = reinterpret_cast<int (*)(void*)>(dlsym(RTLD_NEXT, "cudaFree"));
  return next != nullptr ? next(address) : 3;
}
