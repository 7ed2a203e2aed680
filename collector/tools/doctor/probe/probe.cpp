// Run by `lockstep doctor` with the recorder preloaded. Makes NCCL calls and prints the results, with one line "name
// value" each.
//   probe linked        calls the library next to it, by the names that it is linked to
//   probe opened PATH   opens a library and looks the functions up, like PyTorch's extensions, vLLM and JAX
// It creates a communicator of one rank. Unless that fails (without a visible GPU), it destroys the communicator. Only
// the library next to it also gets AllReduce calls.
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

extern "C" {
struct ncclUniqueId {
  char internal[128];
};
struct ncclComm;
typedef ncclComm* ncclComm_t;

int ncclGetVersion(int*);
int ncclGetUniqueId(ncclUniqueId*);
int ncclCommInitRank(ncclComm_t*, int, ncclUniqueId, int);
int ncclAllReduce(const void*, void*, size_t, int, int, ncclComm_t, void*);
int ncclCommDestroy(ncclComm_t);
}

namespace {

constexpr int kCalls = 3, kFloat = 7, kSum = 0;

struct Functions {
  int (*version)(int*);
  int (*id)(ncclUniqueId*);
  int (*init)(ncclComm_t*, int, ncclUniqueId, int);
  int (*all_reduce)(const void*, void*, size_t, int, int, ncclComm_t, void*);
  int (*destroy)(ncclComm_t);
};

template <typename Function>
void Look(void* handle, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(handle, name));
  if (*function == nullptr) printf("missing %s\n", name);
}

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  Functions f = {ncclGetVersion, ncclGetUniqueId, ncclCommInitRank, ncclAllReduce, ncclCommDestroy};
  bool pretend = true;  // the library next to this program accepts any buffer
  if (argc == 3 && strcmp(argv[1], "opened") == 0) {
    void* handle = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      printf("error %s\n", dlerror());
      return 1;
    }
    link_map* map = nullptr;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) printf("path %s\n", map->l_name);
    Look(handle, "ncclGetVersion", &f.version);
    Look(handle, "ncclGetUniqueId", &f.id);
    Look(handle, "ncclCommInitRank", &f.init);
    Look(handle, "ncclAllReduce", &f.all_reduce);
    Look(handle, "ncclCommDestroy", &f.destroy);
    if (!f.version || !f.id || !f.init || !f.all_reduce || !f.destroy) return 1;
    pretend = strstr(argv[2], "liblockstep-probe-nccl") != nullptr;
  } else if (argc != 2 || strcmp(argv[1], "linked") != 0) {
    fputs("usage: probe linked | probe opened PATH (for lockstep doctor)\n", stderr);
    return 2;
  }
  int version = 0;
  printf("get-version %d\n", f.version(&version));
  printf("version %d\n", version);
  ncclUniqueId id;
  memset(&id, 0, sizeof id);
  printf("get-unique-id %d\n", f.id(&id));
  ncclComm_t comm = nullptr;
  const int made = f.init(&comm, 1, id, 0);
  printf("init %d\n", made);
  if (made != 0) return 0;
  int done = 0;
  if (pretend) {
    static float send[4], recv[4];
    for (; done < kCalls; ++done) {
      if (f.all_reduce(send, recv, 4, kFloat, kSum, comm, nullptr) != 0) break;
    }
  }
  printf("calls %d\n", done);
  printf("destroy %d\n", f.destroy(comm));
  return 0;
}
