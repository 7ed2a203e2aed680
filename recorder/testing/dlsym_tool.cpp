// Other tools that are preloaded together with the recorder and interfere with lookups. LOCKSTEP_TOOL: 1 a dlsym, 2 a
// dlvsym, each a plain function that calls the next; 3 a dlsym as a tail jump; 4 a shim that calls NCCL by its second
// names; 5 a shim that opens NCCL with dlopen; 6 lookups while the process starts
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>

#define API extern "C" __attribute__((visibility("default")))

API int lockstep_test_hooked;
int lockstep_test_hooked = 0;

#if LOCKSTEP_TOOL == 1 || LOCKSTEP_TOOL == 3
// Finds the next function as such tools do: first the version since 2.34, then the older ones.
static void* Next(const char* name) {
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"}) {
    void* found = dlvsym(RTLD_NEXT, name, version);
    if (found != nullptr) return found;
  }
  abort();
}
#endif

#if LOCKSTEP_TOOL == 1
API void* dlsym(void* handle, const char* name) {
  static const auto next = reinterpret_cast<void* (*)(void*, const char*)>(Next("dlsym"));
  void* volatile found = next(handle, name);  // prevents a tail call
  ++lockstep_test_hooked;
  return found;
}
#elif LOCKSTEP_TOOL == 2
API void* dlvsym(void* handle, const char* name, const char* version) {
  using F = void* (*)(void*, const char*, const char*);
  static const auto next = reinterpret_cast<F>(dlsym(RTLD_NEXT, "dlvsym"));
  void* volatile found = next(handle, name, version);
  ++lockstep_test_hooked;
  return found;
}
#elif LOCKSTEP_TOOL == 3 && defined(__x86_64__)
extern "C" {
__attribute__((visibility("hidden"))) void* tool_next;
__attribute__((visibility("hidden"))) void* tool_find() { return tool_next = Next("dlsym"); }
}
__asm__(
    ".globl dlsym\n.type dlsym, @function\n"
    "dlsym:\n"
    "  movq tool_next(%rip), %rax\n  testq %rax, %rax\n  je 1f\n  jmp *%rax\n"
    "1: pushq %rdi\n  pushq %rsi\n  subq $8, %rsp\n  call tool_find\n"
    "  addq $8, %rsp\n  popq %rsi\n  popq %rdi\n  jmp *%rax\n");
#elif LOCKSTEP_TOOL == 4
extern "C" __attribute__((weak)) int pncclAllReduce(const void*, void*, size_t, int, int, void*, void*);
extern "C" __attribute__((weak)) int pncclGroupStart();
extern "C" __attribute__((weak)) int pncclGroupEnd();
API int ncclAllReduce(const void* send, void* recv, size_t count, int type, int op, void* comm, void* stream) {
  ++lockstep_test_hooked;
  return pncclAllReduce(send, recv, count, type, op, comm, stream);
}
API int ncclGroupStart() {
  ++lockstep_test_hooked;
  return pncclGroupStart();
}
API int ncclGroupEnd() {
  ++lockstep_test_hooked;
  return pncclGroupEnd();
}
#elif LOCKSTEP_TOOL == 5
template <typename F>
static F Real(F, const char* name) {
  ++lockstep_test_hooked;
  static void* library = dlopen(getenv("LOCKSTEP_TEST_NCCL"), RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<F>(dlsym(library, name));
}
API int ncclAllReduce(const void* send, void* recv, size_t count, int type, int op, void* comm, void* stream) {
  return Real(&ncclAllReduce, "ncclAllReduce")(send, recv, count, type, op, comm, stream);
}
API int ncclGroupStart() { return Real(&ncclGroupStart, "ncclGroupStart")(); }
API int ncclGroupEnd() { return Real(&ncclGroupEnd, "ncclGroupEnd")(); }
#elif LOCKSTEP_TOOL == 6
// Runs before main and before other libraries are initialized.
__attribute__((constructor(101))) static void Begin() {
  const auto next = reinterpret_cast<void* (*)(size_t)>(dlsym(RTLD_NEXT, "malloc"));
  if (next == nullptr) abort();
  free(next(10));
  for (const char* name :
       {"ncclAllReduce", "pncclGroupStart", "cuInit", "cudaMalloc", "hipMalloc", "dlsym", "no such name"}) {
    for (void* handle : {RTLD_DEFAULT, RTLD_NEXT}) {
      void* found = dlsym(handle, name);
      const char* error = dlerror();
      if ((found == nullptr) != (error != nullptr) || (found != nullptr) != (strcmp(name, "dlsym") == 0)) {
        fprintf(stderr, "start-up: %s gives %p, %s\n", name, found, error != nullptr ? error : "no error");
        abort();
      }
    }
  }
  ++lockstep_test_hooked;
}
#endif
