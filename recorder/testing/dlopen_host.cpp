// Opens NCCL with dlopen and RTLD_LOCAL, as language bindings do. NCCL's inner calls still go through the preloaded
// recorder, which must find the real functions although dlsym(RTLD_NEXT) finds none.
//   recorder_dlopen_host PATH_OF_LIBNCCL
#include <dlfcn.h>

#include <cstdio>

int main(int argc, char** argv) {
  // NCCL is not loaded yet. The lookup may find the recorder's own symbol, but the call must fail cleanly.
  auto early = reinterpret_cast<int (*)(int*)>(dlsym(RTLD_DEFAULT, "ncclGetVersion"));
  int version = -1;
  if (early != nullptr) early(&version);
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (library == nullptr) return 2;
  auto init_all = reinterpret_cast<int (*)(void**, int, const int*)>(dlsym(library, "ncclCommInitAll"));
  auto destroy = reinterpret_cast<int (*)(void*)>(dlsym(library, "ncclCommDestroy"));
  if (init_all == nullptr || destroy == nullptr) return 3;
  void* comm = nullptr;
  const int made = init_all(&comm, 1, nullptr);
  if (early != nullptr) early(&version);
  std::printf("%d %d\n", made, destroy(comm));
  return early != nullptr && version <= 0 ? 4 : 0;
}
