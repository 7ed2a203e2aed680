// A program that loads and uses NCCL in ways that the recorder must survive. It prints what calls returned;
// hostile_test compares that with a run without the recorder.
//   hostile_host MODE LIBNCCL [ARGUMENT...]
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "recorder/testing/deny.h"

namespace {

struct UniqueId {
  char bytes[128];
};
using InitAll = int (*)(void**, int, const int*);
using InitRank = int (*)(void**, int, UniqueId, int);
using AllReduce = int (*)(const void*, void*, size_t, int, int, void*, void*);
using Send = int (*)(const void*, size_t, int, int, void*, void*);
using OnComm = int (*)(void*);
using Plain = int (*)();

template <typename F>
F Find(const char* name, void* library = RTLD_DEFAULT) {
  void* found = dlsym(library, name);
  if (found == nullptr) {
    std::printf("no %s\n", name);
    std::exit(3);
  }
  return reinterpret_cast<F>(found);
}

void* Open(const char* path, int scope) {
  void* library = dlopen(path, RTLD_NOW | scope);
  if (library != nullptr) return library;
  std::printf("%s\n", dlerror());
  std::exit(3);
}

void* Make(int rank = 0, int size = 1) {
  UniqueId id;
  void* comm = nullptr;
  const int got = Find<int (*)(UniqueId*)>("ncclGetUniqueId")(&id);
  const int made = Find<InitRank>("ncclCommInitRank")(&comm, size, id, rank);
  if (got != 0 || made != 0) std::printf("id %d init %d\n", got, made);
  return comm;
}

int Reduce(void* comm, void* stream, size_t count = 1, const void* send = nullptr) {
  return Find<AllReduce>("ncclAllReduce")(send, nullptr, count, 7, 0, comm, stream);
}

// Loads two NCCL libraries with the same name, each used by its handle. Inner calls must stay in their own library.
int Two(char** paths) {
  void* libraries[] = {Open(paths[0], RTLD_LOCAL), Open(paths[1], RTLD_LOCAL)};
  for (int round = 0; round < 2; ++round) {
    for (void* library : libraries) {
      void* comms[2] = {};
      std::printf("%d ", Find<InitAll>("ncclCommInitAll", library)(comms, 2, nullptr));
      std::printf("%d ", Find<AllReduce>("ncclAllReduce", library)(nullptr, nullptr, 1, 7, 0, comms[1], nullptr));
    }
  }
  std::printf("\n");
  return 0;
}

// The extension and its NCCL are unloaded and loaded again, at another address because the old address is taken.
int Reopen(const char* path) {
  for (int round = 0; round < 3; ++round) {
    void* plugin = Open(path, RTLD_LOCAL);
    std::printf("%d\n", Find<Plain>("PluginRun", plugin)());
    std::fflush(stdout);
    dlclose(plugin);
    for (int i = 0; i < 500; ++i) mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  return 0;
}

void Throw() { throw std::runtime_error("thrown"); }

// An exception from inside NCCL, like that of a cancelled thread, must pass through the recorder's frames.
int Exception() {
  void* comm = Make();
  try {
    Reduce(comm, nullptr, 77, reinterpret_cast<const void*>(&Throw));
  } catch (const std::runtime_error& error) {
    std::printf("%s\n", error.what());
  }
  return 0;
}

// Passes invalid arguments, and makes calls at the wrong time.
int Misuse() {
  auto say = [](const char* what, int result) {
    std::printf("%s %d errno %d\n", what, result, errno);
    std::fflush(stdout);
  };
  errno = 55;
  say("early reduce", Reduce(nullptr, nullptr));
  say("early end", Find<Plain>("ncclGroupEnd")());
  say("early destroy", Find<OnComm>("ncclCommDestroy")(nullptr));
  say("no place", Find<InitRank>("ncclCommInitRank")(nullptr, 1, UniqueId(), 0));
  void* comm = Make();
  void* garbage[64] = {};
  say("garbage", Reduce(garbage, reinterpret_cast<void*>(0x77)));
  for (uintptr_t stream = 0; stream < 4; ++stream) say("default stream", Reduce(comm, reinterpret_cast<void*>(stream)));
  say("bad peer", Find<Send>("ncclSend")(nullptr, 1, 7, -12345, comm, nullptr));
  say("bad type", Find<Send>("ncclSend")(nullptr, ~size_t{0}, -1, 1, comm, nullptr));
  for (int i = 0; i < 2000; ++i) Find<Plain>("ncclGroupStart")();
  say("deep", Reduce(comm, nullptr));
  for (int i = 0; i < 2100; ++i) Find<Plain>("ncclGroupEnd")();
  Find<Plain>("ncclGroupStart")();
  say("in a group", Reduce(comm, nullptr));
  say("abort in a group", Find<OnComm>("ncclCommAbort")(comm));
  say("group end", Find<Plain>("ncclGroupEnd")());
  say("after abort", Reduce(comm, nullptr));
  say("abort again", Find<OnComm>("ncclCommAbort")(comm));
  const pid_t child = vfork();
  if (child == 0) _exit(0);
  int status = 0;
  waitpid(child, &status, 0);
  void* again = Make();
  signal(SIGALRM, [](int) { Find<Plain>("ncclGroupStart")(), Find<Plain>("ncclGroupEnd")(); });
  raise(SIGALRM);
  say("at the end", Reduce(again, nullptr));
  return 0;
}

// Uses more of everything than the tables can contain.
int Many() {
  std::vector<void*> comms;
  for (int i = 0; i < 1000; ++i) comms.push_back(Make(i, 1000));
  int wrong = 0;
  for (size_t i = 0; i < 100000; ++i)
    wrong += Reduce(comms[i % comms.size()], reinterpret_cast<void*>(64 * (i % 3000))) != 0;
  std::atomic<int> bad{0}, waiting{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 300; ++t) {
    threads.emplace_back([&, t] {
      ++waiting;
      while (waiting.load() < 300) std::this_thread::yield();
      for (int i = 0; i < 100; ++i) bad += Reduce(comms[static_cast<size_t>(t)], nullptr) != 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < 10000; ++t) std::thread([&] { bad += Reduce(comms[500], nullptr) != 0; }).join();
  for (void* comm : comms) wrong += Find<OnComm>("ncclCommDestroy")(comm) != 0;
  std::printf("%d %d\n", wrong, bad.load());
  return 0;
}

int Limited(int resource, rlim_t to) {
  const rlimit limit{to, to};
  if (setrlimit(resource, &limit) != 0) return 3;
  errno = 33;
  void* comm = Make();
  std::printf("%d errno %d\n", Reduce(comm, nullptr), errno);
  return 0;
}

// Standard error has no reader, or is full and blocking, when the recorder wants to write its only line.
int Stderr(bool full) {
  int ends[2];
  if (pipe(ends) != 0) return 3;
  if (full) {
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    char block[4096] = {};
    while (write(ends[1], block, sizeof(block)) > 0) {
    }
    fcntl(ends[1], F_SETFL, 0);
  } else {
    close(ends[0]);
  }
  dup2(ends[1], 2);
  std::printf("%d\n", Reduce(Make(), nullptr));
  return 0;
}

// Standard error is a file that may not grow.
int LimitedStderr() {
  std::FILE* file = std::tmpfile();
  const rlimit none{0, RLIM_INFINITY}, all{RLIM_INFINITY, RLIM_INFINITY};
  if (file == nullptr || dup2(fileno(file), 2) != 2 || setrlimit(RLIMIT_FSIZE, &none) != 0) return 3;
  const int result = Reduce(Make(), nullptr);
  setrlimit(RLIMIT_FSIZE, &all);
  std::printf("%d\n", result);
  return 0;
}

std::atomic<bool> g_clock_stopped{false};

int Hooked() {
  void* comm = Make();
  const int result = Reduce(comm, nullptr);
  const auto* count = static_cast<const int*>(dlsym(RTLD_DEFAULT, "lockstep_test_hooked"));
  std::printf("%d, hook saw %d\n", result, count != nullptr ? *count : -1);
  return 0;
}

}  // namespace

// Returns a clock that does not advance while g_clock_stopped is set, like libfaketime.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  if (!g_clock_stopped) return static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  *now = {1'600'000'000, 0};
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string mode = argv[1];
  if (mode == "two" && argc == 4) return Two(argv + 2);
  if (mode == "reopen") return Reopen(argv[2]);
  if (mode == "deny" && argc > 3) return lockstep::Deny(EPERM, argv[2], argv + 3);
  Open(argv[2], RTLD_GLOBAL);
  if (mode == "exception") return Exception();
  if (mode == "misuse") return Misuse();
  if (mode == "many") return Many();
  if (mode == "file-size") return Limited(RLIMIT_FSIZE, 100000);
  if (mode == "files") return Limited(RLIMIT_NOFILE, 3);
  if (mode == "memory") return Limited(RLIMIT_AS, 1);
  if (mode == "broken-stderr") return Stderr(false);
  if (mode == "full-stderr") return Stderr(true);
  if (mode == "limited-stderr") return LimitedStderr();
  if (mode == "stopped-clock") g_clock_stopped = true;
  if (mode == "stopped-clock" || mode == "hooked") return Hooked();
  return 2;
}
