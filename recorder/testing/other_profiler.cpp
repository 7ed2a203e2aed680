// Another profiler plugin, of interface version 3, which reports its use.
#include <cstdio>

namespace {

int Init(void** context, int* mask) {
  static int something;
  *context = &something;
  *mask = 2;
  std::puts("the other plugin is used");
  return 0;
}
int Start(void*, void** handle, const void*) {
  *handle = nullptr;
  return 0;
}
int Stop(void*) { return 0; }
int Record(void*, int, const void*) { return 0; }
int Finalize(void*) { return 0; }

}  // namespace

struct OtherTable {
  const char* name;
  int (*init)(void**, int*);
  int (*start)(void*, void**, const void*);
  int (*stop)(void*);
  int (*record)(void*, int, const void*);
  int (*finalize)(void*);
};
extern "C" __attribute__((visibility("default"))) OtherTable ncclProfiler_v3;
OtherTable ncclProfiler_v3 = {"other", Init, Start, Stop, Record, Finalize};
