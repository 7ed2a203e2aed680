// A program that looks up functions with dlsym, in every way that callers of NCCL use. Its output must not depend on
// the recorder.
//   lookup_host MODE LIBRARY...
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

struct UniqueId {
  char bytes[128];
};
using GetUniqueId = int (*)(UniqueId*);
using InitRank = int (*)(void**, int, UniqueId, int);
using AllReduce = int (*)(const void*, void*, size_t, int, int, void*, void*);
using OnComm = int (*)(void*);
using Plain = int (*)();

// Looks up names one by one and keeps them in a table, as ctypes, vLLM, JAX and others do.
struct Table {
  GetUniqueId get_unique_id;
  InitRank init_rank;
  AllReduce all_reduce;
  OnComm destroy;
  Plain group_start, group_end;
};

template <typename Find>
Table Fill(Find find) {
  Table table{};
  table.get_unique_id = reinterpret_cast<GetUniqueId>(find("ncclGetUniqueId"));
  table.init_rank = reinterpret_cast<InitRank>(find("ncclCommInitRank"));
  table.all_reduce = reinterpret_cast<AllReduce>(find("ncclAllReduce"));
  table.destroy = reinterpret_cast<OnComm>(find("ncclCommDestroy"));
  table.group_start = reinterpret_cast<Plain>(find("ncclGroupStart"));
  table.group_end = reinterpret_cast<Plain>(find("ncclGroupEnd"));
  return table;
}

void* Open(const char* path, int flags = RTLD_LOCAL) {
  void* library = dlopen(path, RTLD_NOW | flags);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    std::exit(3);
  }
  return library;
}

Table InLibrary(void* library) {
  return Fill([library](const char* name) { return dlsym(library, name); });
}

void* Make(const Table& nccl) {
  UniqueId id;
  void* comm = nullptr;
  std::printf("id %d", nccl.get_unique_id(&id));
  std::printf(" init %d", nccl.init_rank(&comm, 1, id, 0));
  return comm;
}

// Makes two operations of different sizes, the second in a group, and then destroys the communicator.
int Use(const Table& nccl, void* comm, size_t count) {
  std::printf(" reduce %d", nccl.all_reduce(nullptr, nullptr, count, 7, 0, comm, nullptr));
  std::printf(" start %d", nccl.group_start());
  std::printf(" reduce %d", nccl.all_reduce(nullptr, nullptr, count + 1, 7, 0, comm, nullptr));
  std::printf(" end %d", nccl.group_end());
  std::printf(" destroy %d\n", nccl.destroy(comm));
  return 0;
}
int Run(const Table& nccl, size_t count) {
  void* comm = Make(nccl);
  return Use(nccl, comm, count);
}

// Looks for each function first in the process and then in the library, as nccl4py does.
int DefaultFirst(const char* path) {
  void* library = nullptr;
  int from_process = 0;
  const Table nccl = Fill([&](const char* name) {
    void* found = dlsym(RTLD_DEFAULT, name);
    from_process += found != nullptr;
    if (found != nullptr) return found;
    if (library == nullptr) library = Open(path);
    return dlsym(library, name);
  });
  std::printf("%d of the process; ", from_process);
  return Run(nccl, 50);
}

// Calls the functions by their second names (pncclX).
int SecondNames(void* library) {
  return Run(Fill([library](const char* name) { return dlsym(library, (std::string("p") + name).c_str()); }), 60);
}

// Uses two libraries in turn.
int Two(char** paths) {
  const Table first = InLibrary(Open(paths[0])), second = InLibrary(Open(paths[1]));
  void* comms[] = {Make(first), Make(second)};
  for (int i = 0; i < 3; ++i) {
    std::printf(" %d", first.all_reduce(nullptr, nullptr, 100, 7, 0, comms[0], nullptr));
    std::printf(" %d", second.all_reduce(nullptr, nullptr, 200, 7, 0, comms[1], nullptr));
  }
  std::printf("\n");
  Use(second, comms[1], 210);
  return Use(first, comms[0], 110);
}

// Closes the library after use and opens it again.
int Reopen(const char* path) {
  for (size_t round = 0; round < 3; ++round) {
    void* library = Open(path);
    Run(InLibrary(library), 70 + round);
    std::printf("close %d\n", dlclose(library));
  }
  return 0;
}

// Prints what each kind of lookup returns, with dlerror, but not the address: NCCL's functions may be wrapped.
void Say(const char* what, void* handle, const char* name, const char* version = nullptr) {
  dlerror();
  void* found = version != nullptr ? dlvsym(handle, name, version) : dlsym(handle, name);
  const char* error = dlerror();
  std::string where;
  Dl_info info{};
  // The recorder itself replaces these functions.
  const bool its_own = std::strstr(name, "nccl") != nullptr || std::strstr(name, "sym") != nullptr;
  if (found != nullptr && !its_own && dladdr(found, &info) != 0) where = info.dli_fname;
  // The recorder defines CUDA's runtime functions without a version, because programs refer to them with several.
  // Their error message is the recorder's own.
  if (std::strncmp(name, "cuda", 4) == 0 && error != nullptr) error = "an error";
  std::printf("%s %s %s%s%s: %s, %s\n", what, name, version != nullptr ? "@" : "", version != nullptr ? version : "",
              where.c_str(), found != nullptr ? "found" : "none", error != nullptr ? error : "no error");
  const char* again = dlerror();
  if (again != nullptr) std::printf("said twice: %s\n", again);
}
void SayAll(const char* what, void* handle) {
  for (const char* name : {"ncclAllReduce",
                           "pncclAllReduce",
                           "ncclCommSplit",
                           "pncclCommSplit",
                           "ncclGetVersion",
                           "ncclNewInTheFuture",
                           "nc",
                           "n",
                           "",
                           "p",
                           "pn",
                           "cu",
                           "cuInit",
                           "cudaMalloc",
                           "dl",
                           "dlsym",
                           "dlvsym",
                           "dlopen",
                           "malloc",
                           "pthread_create",
                           "cos",
                           "no such name"}) {
    Say(what, handle, name);
  }
  Say(what, handle, "memcpy", "GLIBC_2.14");
  Say(what, handle, "memcpy", "GLIBC_2.17");
  Say(what, handle, "ncclAllReduce", "NONE");
  Say(what, handle, "dlsym", "GLIBC_2.34");
  Say(what, handle, "dlsym", "NONE");
}

int Probe(char** paths, int count) {
  SayAll("early default", RTLD_DEFAULT);
  SayAll("early next", RTLD_NEXT);
  void* self = dlopen(nullptr, RTLD_NOW);
  SayAll("early self", self);
  for (int i = 0; i < count; ++i) {
    void* library = Open(paths[i]);
    SayAll("library", library);
    void* lookup = dlsym(library, "PluginLookup");
    if (lookup != nullptr) {
      for (void* handle : {RTLD_DEFAULT, RTLD_NEXT}) {
        for (const char* name : {"ncclAllReduce", "ncclCommSplit", "ncclGetVersion", "malloc", "no such name"}) {
          const char* error = nullptr;
          void* found = reinterpret_cast<void* (*)(void*, const char*, const char**)>(lookup)(handle, name, &error);
          std::printf("plugin %s: %s, %s\n", name, found != nullptr ? "found" : "none",
                      error != nullptr ? error : "no error");
        }
      }
    }
  }
  SayAll("default", RTLD_DEFAULT);
  SayAll("next", RTLD_NEXT);
  SayAll("self", self);
  Open(paths[0], RTLD_GLOBAL);
  SayAll("global default", RTLD_DEFAULT);
  SayAll("global next", RTLD_NEXT);
  SayAll("global self", self);
  return 0;
}

// Looks up functions, and opens and closes libraries, in many threads at once.
int Race(char** paths) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        void* library = dlopen(paths[(t + i) % 2], RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) ++wrong;
        const auto version = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"));
        int got = 0;
        if (version == nullptr || version(&got) != 0 || got != 22801 + (t + i) % 2) ++wrong;
        const auto init = reinterpret_cast<InitRank>(dlsym(library, "ncclCommInitRank"));
        const auto destroy = reinterpret_cast<OnComm>(dlsym(library, "ncclCommDestroy"));
        UniqueId id{};
        id.bytes[0] = static_cast<char>(1 + (t + i) % 2);
        void* comm = nullptr;
        if (init == nullptr || init(&comm, 1, id, 0) != 0 || destroy(comm) != 0) ++wrong;
        if (dlsym(library, "ncclCommSplit") != nullptr || dlerror() == nullptr) ++wrong;
        if (dlsym(RTLD_DEFAULT, "ncclAllReduce") != nullptr) ++wrong;
        dlclose(library);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%d\n", wrong.load());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string mode = argv[1];
  if (mode == "handle") return Run(InLibrary(Open(argv[2])), 10);
  if (mode == "self") {
    Open(argv[2], RTLD_GLOBAL);
    return Run(InLibrary(dlopen(nullptr, RTLD_NOW)), 20);
  }
  if (mode == "default") {
    Open(argv[2], RTLD_GLOBAL);
    return Run(InLibrary(RTLD_DEFAULT), 30);
  }
  if (mode == "next") {
    Open(argv[2], RTLD_GLOBAL);
    return Run(InLibrary(RTLD_NEXT), 40);
  }
  if (mode == "default-first") return DefaultFirst(argv[2]);
  if (mode == "second-names") return SecondNames(Open(argv[2]));
  if (mode == "plugin") return reinterpret_cast<Plain>(dlsym(Open(argv[2]), "PluginRun"))();
  if (mode == "plugin-default") return reinterpret_cast<Plain>(dlsym(Open(argv[2]), "PluginRunByDefault"))();
  if (mode == "reopen") return Reopen(argv[2]);
  if (mode == "probe") return Probe(argv + 2, argc - 2);
  if (mode == "two" && argc > 3) return Two(argv + 2);
  if (mode == "race" && argc > 3) return Race(argv + 2);
  return 2;
}
