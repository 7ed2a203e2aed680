// Calls functions that NCCL answers on a machine without a GPU. The program is linked with NCCL; with the library's
// path as an argument, it looks functions up with dlsym. The recorder must not change the output.
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  char internal[128];
} Id;
typedef void* Any;

#ifdef LINKED
#define FUNCTION(type, name, parameters) \
  type name parameters;                  \
  static type(*name##_) parameters = name
#else
#define FUNCTION(type, name, parameters) static type(*name##_) parameters
#endif

FUNCTION(int, ncclGetVersion, (int*));
FUNCTION(const char*, ncclGetErrorString, (int));
FUNCTION(const char*, ncclGetLastError, (Any));
FUNCTION(int, ncclGetUniqueId, (Id*));
FUNCTION(int, ncclCommInitAll, (Any*, int, const int*));
FUNCTION(int, ncclCommInitRank, (Any*, int, Id, int));
FUNCTION(int, ncclCommInitRankConfig, (Any*, int, Id, int, Any));
FUNCTION(int, ncclCommCount, (Any, int*));
FUNCTION(int, ncclCommDestroy, (Any));
FUNCTION(int, ncclCommGetAsyncError, (Any, int*));
FUNCTION(int, ncclAllReduce, (const void*, void*, size_t, int, int, Any, Any));
FUNCTION(int, ncclAllGather, (const void*, void*, size_t, int, Any, Any));
FUNCTION(int, ncclReduceScatter, (const void*, void*, size_t, int, int, Any, Any));
FUNCTION(int, ncclSend, (const void*, size_t, int, int, Any, Any));
FUNCTION(int, ncclGroupStart, (void));
FUNCTION(int, ncclGroupEnd, (void));

static void Say(const char* what, int result) { printf("%s %d errno %d\n", what, result, errno == ENOSYS); }

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IONBF, 0);
#ifndef LINKED
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library == NULL) {
    printf("not opened: %s\n", dlerror());
    return 2;
  }
#define FIND(name) *(void**)&name##_ = dlsym(library, #name)
  FIND(ncclGetVersion), FIND(ncclGetErrorString), FIND(ncclGetLastError), FIND(ncclGetUniqueId), FIND(ncclCommInitAll);
  FIND(ncclCommInitRank), FIND(ncclCommInitRankConfig), FIND(ncclCommCount), FIND(ncclCommDestroy);
  FIND(ncclCommGetAsyncError), FIND(ncclAllReduce), FIND(ncclAllGather), FIND(ncclReduceScatter), FIND(ncclSend);
  FIND(ncclGroupStart), FIND(ncclGroupEnd);
  // Functions that later releases added. The recorder must not change whether they exist.
  for (const char* const* name =
           (const char* const[]){"ncclCommShrink", "ncclAlltoAll", "ncclAllReduceConfig", "ncclCommGrow",
                                 "pncclAllGatherConfig", "ncclSetEncryption", "ncclNoSuchFunction", NULL};
       *name != NULL; ++name) {
    Any (*null_config)(Any, Any, size_t, int, int, Any, Any, Any) = NULL;
    *(void**)&null_config = dlsym(library, *name);
    printf("%s %s\n", *name, null_config != NULL ? "is there" : "is not there");
    if (null_config != NULL && strcmp(*name, "ncclAllReduceConfig") == 0)
      Say("reduce with a configuration", (int)(size_t)null_config(NULL, NULL, 1, 7, 0, NULL, NULL, NULL));
  }
#else
  (void)argc, (void)argv;
#endif
  int version = 0, value = -7;
  Say("version", ncclGetVersion_(&version));
  printf("%d\n", version);
  for (int i = -1; i < 12; ++i) printf("%d: %s\n", i, ncclGetErrorString_(i));
  Id id;
  memset(&id, 0, sizeof id);
  errno = 0;
  const int made = ncclGetUniqueId_(&id);
  int set = 0;
  for (size_t i = 0; i < sizeof id; ++i) set |= id.internal[i] != 0;
  Say(set ? "id" : "no id", made);
  Any comms[2] = {NULL, NULL};
  const int devices[2] = {0, 1};
  Say("all", ncclCommInitAll_(comms, 2, devices));
  Say("none", ncclCommInitAll_(comms, 0, devices));
  Say("rank", ncclCommInitRank_(comms, 1, id, 0));
  Say("wrong rank", ncclCommInitRank_(comms, 1, id, 5));
  Say("configured", ncclCommInitRankConfig_(comms, 1, id, 0, NULL));
  Say("grouped", ncclGroupStart_());
  Say("rank", ncclCommInitRank_(comms, 1, id, 0));
  Say("ended", ncclGroupEnd_());
  Say("reduce", ncclAllReduce_(NULL, NULL, 1, 7, 0, NULL, NULL));
  Say("gather", ncclAllGather_(NULL, NULL, 1, 7, NULL, NULL));
  Say("scatter", ncclReduceScatter_(NULL, NULL, 1, 7, 0, NULL, NULL));
  Say("send", ncclSend_(NULL, 1, 7, 0, NULL, NULL));
  Say("count", ncclCommCount_(NULL, &value));
  Say("error", ncclCommGetAsyncError_(NULL, &value));
  Say("destroy", ncclCommDestroy_(NULL));
  printf("value %d, comm %d\n", value, comms[0] != NULL);
  const char* last = ncclGetLastError_(NULL);
  printf("last: %s\n", last == NULL ? "null" : last);
  return 0;
}
