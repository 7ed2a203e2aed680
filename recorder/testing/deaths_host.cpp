// A program that runs and ends in the ways that the recorder must survive, on an NCCL that does nothing
// (deaths_nccl.cpp). recorder_deaths_test compares what it prints.
//   recorder_deaths_host MODE [ARGUMENT...]
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "recorder/testing/deny.h"

struct UniqueId {
  char bytes[128];
};
extern "C" {
int ncclGetUniqueId(UniqueId*);
int ncclCommInitRank(void**, int, UniqueId, int);
int ncclCommDestroy(void*);
int ncclAllReduce(const void*, void*, size_t, int, int, void*, void*);
int ncclSend(const void*, size_t, int, int, void*, void*);
int ncclRecv(void*, size_t, int, int, void*, void*);
int ncclGroupStart();
int ncclGroupEnd();
unsigned long DeathsReached(const void*);
extern void (*deaths_callback)();
extern char** environ;
}

namespace {

void* Make(int size = 1) {
  UniqueId id;
  void* comm = nullptr;
  if (ncclGetUniqueId(&id) != 0 || ncclCommInitRank(&comm, size, id, 0) != 0) std::exit(3);
  return comm;
}
int Reduce(void* comm) { return ncclAllReduce(nullptr, nullptr, 8, 7, 0, comm, reinterpret_cast<void*>(0x4000)); }
void Group(void* comm) {
  ncclGroupStart();
  ncclSend(nullptr, 8, 7, 0, comm, reinterpret_cast<void*>(0x4000));
  ncclRecv(nullptr, 8, 7, 0, comm, reinterpret_cast<void*>(0x4000));
  ncclGroupEnd();
}
double Seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}
int Await(pid_t child) {
  int status = -1;
  while (waitpid(child, &status, __WALL) == -1 && errno == EINTR) {
  }
  return status;
}

// --- A signal at any instruction: a tracer steps through the call after each SIGUSR2 and delivers SIGUSR1 somewhere.
void* g_comm;
void* g_other;
volatile sig_atomic_t g_forked_child, g_handled;
sigjmp_buf g_before;

void HandleNested(int) {
  g_handled = g_handled + 1;
  Reduce(g_other);
}
void HandleFork(int) {
  g_handled = g_handled + 1;
  const pid_t child = fork();
  if (child == 0) {
    g_forked_child = 1;
    return;
  }
  const int status = Await(child);
  if (status != 0) {
    std::printf("the child of handler %d ended with %x\n", static_cast<int>(g_handled), status);
    std::fflush(stdout);
    _exit(1);
  }
}
void HandleJump(int) {
  g_handled = g_handled + 1;
  siglongjmp(g_before, 1);
}

// The child continues where the handler interrupted its parent. Some children create their own communicator.
void AsForkedChild() {
  if (g_handled % 16 == 0) {
    void* own = Make();
    Reduce(own);
    if (DeathsReached(own) != 1) _exit(2);
  } else {
    Reduce(g_comm);
    Group(g_comm);
  }
  _exit(0);
}

int Stepped(const std::string& what, const std::string& way, int rounds) {
  g_comm = Make();
  g_other = Make();
  struct sigaction action {};
  action.sa_handler = way == "fork" ? HandleFork : way == "jump" ? HandleJump : HandleNested;
  action.sa_flags = way == "jump" ? SA_NODEFER : 0;
  sigaction(SIGUSR1, &action, nullptr);
  signal(SIGUSR2, SIG_IGN);
  Reduce(g_comm);
  Group(g_comm);
  volatile int left = rounds;
  while (left > 0) {
    left = left - 1;
    if (sigsetjmp(g_before, 1) != 0) {
      if (what == "group") ncclGroupEnd();  // the group may have been left open
      continue;
    }
    kill(getpid(), SIGUSR2);
    if (what == "group") {
      Group(g_comm);
    } else {
      Reduce(g_comm);
    }
    if (g_forked_child) AsForkedChild();
  }
  const unsigned long before = DeathsReached(g_comm);
  for (int i = 0; i < 10; ++i) Reduce(g_comm);
  std::printf("%lu %lu %lu %d\n", before, DeathsReached(g_comm) - before, DeathsReached(g_other),
              static_cast<int>(g_handled));
  return 0;
}

// A timer sends signals at a high rate. Their handler calls NCCL too.
int Storm() {
  g_comm = Make();
  g_other = Make();
  signal(SIGALRM, HandleNested);
  const itimerval often{{0, 50}, {0, 50}};
  setitimer(ITIMER_REAL, &often, nullptr);
  const double until = Seconds() + 0.7;
  for (int i = 0; Seconds() < until || g_handled < 100; ++i) {
    Reduce(g_comm);
    if (i % 4 == 0) Group(g_comm);
  }
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  std::printf("%lu %lu\n", DeathsReached(g_comm), DeathsReached(g_other));
  return 0;
}

// --- Calls that an exception or a jump leaves.
void Throw() { throw std::runtime_error("thrown"); }
int Exceptions() {
  void* comm = Make();
  int thrown = 0;
  for (int i = 0; i < 10; ++i) {
    deaths_callback = Throw;
    try {
      Reduce(comm);
    } catch (const std::runtime_error&) {
      ++thrown;
    }
    deaths_callback = nullptr;
    Reduce(comm);
  }
  std::printf("%d %lu\n", thrown, DeathsReached(comm));
  return 0;
}

volatile sig_atomic_t g_waiting;
void EndThread() { pthread_exit(nullptr); }
void WaitForever() {
  g_waiting = 1;
  for (;;) pause();
}
void* InCall(void* comm) {
  Reduce(comm);
  return nullptr;
}
void* InGroup(void* comm) {
  prctl(PR_SET_NAME, "in-group");
  ncclGroupStart();
  ncclSend(nullptr, 8, 7, 0, comm, nullptr);
  return nullptr;
}

// Threads end inside a call (by themselves or cancelled) and inside a group; the process then uses their communicators.
int Threads() {
  void* first = Make();
  void* second = Make();
  void* third = Make();
  pthread_t thread;
  deaths_callback = EndThread;
  pthread_create(&thread, nullptr, InCall, first);
  pthread_join(thread, nullptr);
  deaths_callback = WaitForever;
  pthread_create(&thread, nullptr, InCall, second);
  while (!g_waiting) sched_yield();
  pthread_cancel(thread);
  pthread_join(thread, nullptr);
  deaths_callback = nullptr;
  pthread_create(&thread, nullptr, InGroup, third);
  pthread_join(thread, nullptr);
  for (void* comm : {first, second, third}) {
    Reduce(comm);
    Group(comm);
  }
  for (const double until = Seconds() + 1.7; Seconds() < until;) {
    Reduce(first);
    usleep(1000);
  }
  return 0;
}

// Makes more threads than there are cells, one after the other.
int ManyThreads() {
  void* comm = Make();
  for (int i = 0; i < 3000; ++i) {
    pthread_t thread;
    pthread_create(&thread, nullptr, i % 7 == 0 ? InGroup : InCall, comm);
    pthread_join(thread, nullptr);
  }
  Reduce(comm);
  std::printf("%lu\n", DeathsReached(comm));
  return 0;
}

// --- Processes.
std::string RingBytes() {
  std::string all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::getenv("LOCKSTEP_DIR"))) {
    if (!entry.is_regular_file() ||
        entry.path().string().find("." + std::to_string(getpid()) + ".") == std::string::npos) {
      continue;
    }
    std::ifstream file(entry.path());
    all.append(std::istreambuf_iterator<char>(file), {});
  }
  return all;
}

// Forks data loaders, which misuse what they inherited and exit in several ways.
int Loaders() {
  void* comm = Make();
  for (int i = 0; i < 10; ++i) Reduce(comm);
  const std::string before = std::getenv("LD_PRELOAD") != nullptr ? RingBytes() : "";
  const pid_t parent = getpid();
  int bad = 0;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (int n = 0; n < 100; ++n) Reduce(comm), Group(comm);
      ncclCommDestroy(comm);
      if (i % 4 == 0) std::exit(0);
      if (i % 4 == 1) _exit(0);
      if (i % 4 == 2 && fork() == 0) Reduce(comm), _exit(0);
      if (i % 4 == 3) execl("/bin/true", "true", nullptr);
      _exit(0);
    }
    bad += Await(child) != 0;
  }
  const std::string after = std::getenv("LD_PRELOAD") != nullptr ? RingBytes() : "";
  Reduce(comm);
  std::printf("%d %s %lu\n", bad, before == after && parent == getpid() ? "untouched" : "touched", DeathsReached(comm));
  return 0;
}

int InClone(void* comm) {
  for (int n = 0; n < 10; ++n) Reduce(comm);
  return 0;
}

// Starts children in other ways than fork: vfork, posix_spawn, system, popen, clone.
int Children() {
  void* comm = Make();
  Reduce(comm);
  int bad = 0;
  pid_t child = vfork();
  if (child == 0) _exit(0);
  bad += Await(child) != 0;
  child = vfork();
  if (child == 0) {
    execl("/bin/true", "true", nullptr);
    _exit(1);
  }
  bad += Await(child) != 0;
  char name[] = "true";
  char* arguments[] = {name, nullptr};
  bad += posix_spawn(&child, "/bin/true", nullptr, nullptr, arguments, environ) != 0 || Await(child) != 0;
  bad += std::system("true") != 0;
  FILE* pipe = popen("true", "r");
  bad += pipe == nullptr || pclose(pipe) != 0;
  // Uses the kernel's clone without libc, so that no fork handlers run.
  for (const long flags : {long{SIGCHLD}, long{CLONE_FS | CLONE_FILES | SIGCHLD}, long{0}}) {
    child = static_cast<pid_t>(syscall(SYS_clone, flags, nullptr, nullptr, nullptr, nullptr));
    if (child == 0) {
      Reduce(comm);  // this is the parent's communicator, so the call is not recorded
      void* own = Make();
      Reduce(own);
      _exit(DeathsReached(own) == 1 ? 0 : 1);
    }
    bad += Await(child) != 0;
  }
  // This child shares its parent's memory and has its own stack. Its calls count as the parent's.
  const size_t bytes = 1 << 18;
  void* stack = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  child = clone(InClone, static_cast<char*>(stack) + bytes, CLONE_VM | SIGCHLD, comm);
  bad += Await(child) != 0;
  for (int n = 0; n < 10; ++n) Reduce(comm);
  std::printf("%d %lu\n", bad, DeathsReached(comm));
  return 0;
}

int Exec(char** argv, const char* next) {
  void* comm = Make();
  for (int i = 0; i < 3; ++i) Reduce(comm);
  if (std::strcmp(next, "true") == 0) {
    execl("/bin/true", "true", nullptr);
  } else {
    char mode[] = "calls", count[] = "5";
    char* arguments[] = {argv[0], mode, count, nullptr};
    execv("/proc/self/exe", arguments);
  }
  return 3;
}

int Calls(int count) {
  void* comm = Make();
  int wrong = 0;
  for (int i = 0; i < count; ++i) wrong += Reduce(comm) != 0;
  std::printf("%d %lu\n", wrong, DeathsReached(comm));
  return 0;
}

// Makes calls until the file exists, and a few more afterwards.
int Until(const char* path) {
  void* comm = Make();
  int wrong = 0;
  const double until = Seconds() + 50;
  while (access(path, F_OK) != 0 && Seconds() < until) {
    for (int i = 0; i < 100; ++i) wrong += Reduce(comm) != 0;
    Group(comm);
    usleep(1000);
  }
  std::printf("%d %s\n", wrong, Seconds() < until ? "told" : "not told");
  return 0;
}

// Fills the file system of the ring, then writes to every part of the ring.
int Fill(const char* path) {
  void* comm = Make();
  Reduce(comm);
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  static char block[65536];
  std::memset(block, 1, sizeof(block));
  size_t size = sizeof(block);
  for (int rounds = 0; rounds < 100000 && size > 0; ++rounds) {
    if (write(fd, block, size) <= 0) size /= 2;
  }
  const bool full = errno == ENOSPC;
  if (std::getenv("DEATHS_SYNC") != nullptr) sync();
  for (int i = 0; i < 600; ++i) {
    void* more = Make(64);
    for (int peer = 0; peer < 40; ++peer) ncclSend(nullptr, 8, 7, peer, more, reinterpret_cast<void*>(0x1000L * i));
  }
  for (int t = 0; t < 40; ++t) {
    pthread_t thread;
    pthread_create(&thread, nullptr, InCall, comm);
    pthread_join(thread, nullptr);
  }
  for (int i = 0; i < 20000; ++i) Reduce(comm);
  close(fd);
  std::printf("%s %lu\n", full ? "full" : "not full", DeathsReached(comm));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "stepped" && argc > 4) return Stepped(argv[2], argv[3], std::atoi(argv[4]));
  if (mode == "storm") return Storm();
  if (mode == "exceptions") return Exceptions();
  if (mode == "threads") return Threads();
  if (mode == "many-threads") return ManyThreads();
  if (mode == "loaders") return Loaders();
  if (mode == "children") return Children();
  if (mode == "exec" && argc > 2) return Exec(argv, argv[2]);
  if (mode == "calls" && argc > 2) return Calls(std::atoi(argv[2]));
  if (mode == "until" && argc > 2) return Until(argv[2]);
  if (mode == "fill" && argc > 2) return Fill(argv[2]);
  if (mode == "deny" && argc > 4) return lockstep::Deny(std::atoi(argv[2]), argv[3], argv + 4);
  if (mode == "secure") {
    std::printf("secure %lu ", getauxval(AT_SECURE));
    std::fflush(stdout);
    return Calls(3);
  }
  return 2;
}
