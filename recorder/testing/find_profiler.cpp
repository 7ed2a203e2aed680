// Looks for the profiler's tables in the two ways of NCCL's plugin loader. Loads the real NCCL first, if it is
// installed.
//   recorder_find_profiler LIBRARY REAL_NCCL
#include <dlfcn.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  if (argv[2][0] != 0 && dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) == nullptr)
    std::printf("real NCCL not loaded: %s\n", dlerror());
  void* program = dlopen(nullptr, RTLD_NOW | RTLD_LOCAL);
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  for (int version = 1; version <= 6; ++version) {
    char name[32];
    std::snprintf(name, sizeof(name), "ncclProfiler_v%d", version);
    void* everywhere = dlsym(program, name);
    void* there = dlsym(library, name);
    if (everywhere == nullptr || everywhere != there) {
      std::printf("%s: %p in the program, %p in the library\n", name, everywhere, there);
      return 1;
    }
  }
  std::puts("same instance");
  return 0;
}
