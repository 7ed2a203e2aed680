// A test program for machines with a different architecture than the build machine. It needs no library except an NCCL
// that does nothing, and calls it in every way that programs do.
//   arm_host linked | by-hand LIBRARY | threads
// It prints its results, which must be the same with and without the recorder.
#include <dlfcn.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/support/nccl_calls.h"

namespace {

void* At(unsigned long value) { return reinterpret_cast<void*>(value); }

void* MakeComm(int rank) {
  UniqueId id;
  ncclGetUniqueId(&id);
  void* comm = nullptr;
  return ncclCommInitRank(&comm, 4, id, rank) == 0 ? comm : nullptr;
}

int Linked() {
  void* comm = MakeComm(2);
  int failed = 0;
  errno = 77;
  for (unsigned long i = 1; i <= 100; ++i) failed += ncclAllReduce(At(0x1000), At(0x2000), i, 7, 0, comm, At(0x6000));
  for (int g = 0; g < 10; ++g) {
    failed += ncclGroupStart();
    for (int peer = 0; peer < 4; ++peer) {
      failed += ncclSend(At(0x3000), 5, 7, peer, comm, At(0x6000));
      failed += ncclRecv(At(0x4000), 6, 7, peer, comm, At(0x6000));
    }
    failed += ncclGroupEnd();
  }
  failed += ncclCommDestroy(comm);
  std::printf("%d %d\n", failed, errno);
  return failed;
}

// Opens the library with RTLD_LOCAL and looks up every function, as ctypes does.
int ByHand(const char* library) {
  void* opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return 2;
  const auto find = [&](const char* name) { return dlsym(opened, name); };
  const auto get_id = reinterpret_cast<int (*)(UniqueId*)>(find("ncclGetUniqueId"));
  const auto init = reinterpret_cast<int (*)(void**, int, UniqueId, int)>(find("ncclCommInitRank"));
  const auto reduce =
      reinterpret_cast<int (*)(const void*, void*, unsigned long, int, int, void*, void*)>(find("ncclAllReduce"));
  if (get_id == nullptr || init == nullptr || reduce == nullptr) return 3;
  dlerror();
  const bool none = dlsym(opened, "ncclNoSuchFunction") == nullptr;
  char error[200] = "no error";
  if (const char* text = dlerror()) std::snprintf(error, sizeof(error), "%s", text);
  UniqueId id;
  get_id(&id);
  void* comm = nullptr;
  int failed = init(&comm, 4, id, 1);
  for (unsigned long i = 1; i <= 50; ++i) failed += reduce(At(0x1000), At(0x2000), i, 7, 0, comm, At(0x6000));
  std::printf("%d %d %d %s\n", failed, none, dlsym(RTLD_DEFAULT, "printf") != nullptr, error);
  return failed;
}

int Threads() {
  std::vector<std::thread> threads;
  int failed[8] = {};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t, &failed] {
      void* comm = MakeComm(t % 4);
      for (unsigned long i = 1; i <= 2000; ++i)
        failed[t] +=
            ncclAllReduce(At(0x1000), At(0x2000), i, 7, 0, comm, At(0x6000 + 64 * static_cast<unsigned long>(t)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  int sum = 0;
  for (const int f : failed) sum += f;
  std::printf("%d\n", sum);
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (std::strcmp(argv[1], "linked") == 0) return Linked();
  if (std::strcmp(argv[1], "by-hand") == 0 && argc > 2) return ByHand(argv[2]);
  if (std::strcmp(argv[1], "threads") == 0) return Threads();
  return 2;
}
