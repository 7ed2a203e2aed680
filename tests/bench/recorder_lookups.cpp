// Measures a dlsym lookup; if the recorder is preloaded, this includes its hook.
//   recorder_lookups LIBNCCL [LABEL]
#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

int64_t ProcessNs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * int64_t{1000000000} + time.tv_nsec;
}

// Returns nanoseconds per lookup, the median of all batches.
double Cost(void* handle, const char* name, int calls) {
  std::vector<double> batches;
  for (int batch = 0; batch < 41; ++batch) {
    const int64_t begin = ProcessNs();
    for (int i = 0; i < calls; ++i) {
      void* volatile found = dlsym(handle, name);
      (void)found;
    }
    batches.push_back(static_cast<double>(ProcessNs() - begin) / calls);
  }
  std::sort(batches.begin(), batches.end());
  return batches[batches.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (library == nullptr) {
    std::fprintf(stderr, "usage: recorder_lookups LIBNCCL [LABEL]: %s\n", dlerror());
    return 2;
  }
  std::printf(
      "dlsym%s%s, ns: malloc in the default scope %.1f, in a library: ncclGetVersion (not recorded) %.1f, "
      "ncclAllReduce "
      "(recorded) %.1f, none such %.1f\n",
      argc > 2 ? " " : "", argc > 2 ? argv[2] : "", Cost(RTLD_DEFAULT, "malloc", 20000),
      Cost(library, "ncclGetVersion", 20000), Cost(library, "ncclAllReduce", 2000),
      Cost(library, "xcclAllReduce", 2000));
  return 0;
}
