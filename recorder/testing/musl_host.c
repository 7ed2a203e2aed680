// A program for musl (musl-gcc) instead of glibc, with the NCCL that does nothing.
//   musl_host plain     threads, fork, exec, lookups: what any program does; calls no NCCL
//   musl_host linked | by-hand LIBRARY      100 operations, a child that calls NCCL too, 100 more
// The output must be the same with and without the recorder.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
  char bytes[128];
} UniqueId;
int ncclGetUniqueId(UniqueId*);
int ncclCommInitRank(void**, int, UniqueId, int);
int ncclAllReduce(const void*, void*, unsigned long, int, int, void*, void*);

static int (*get_id)(UniqueId*) = ncclGetUniqueId;
static int (*init)(void**, int, UniqueId, int) = ncclCommInitRank;
static int (*reduce)(const void*, void*, unsigned long, int, int, void*, void*) = ncclAllReduce;

static void* Double(void* value) {
  void* kept = malloc(100);
  free(kept);
  return (void*)((unsigned long)value * 2);
}

static int Child(int (*work)(void*), void* with) {
  const pid_t child = fork();
  if (child == 0) _exit(work(with));
  int status = -1;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

static int Echo(void* with) {
  (void)with;
  execl("/bin/sh", "sh", "-c", "exit 7", (char*)0);
  return 1;
}

static int Plain(void) {
  pthread_t thread;
  void* twice = 0;
  if (pthread_create(&thread, 0, Double, (void*)21) != 0 || pthread_join(thread, &twice) != 0) return 2;
  const int same = dlsym(RTLD_DEFAULT, "getenv") == dlsym(RTLD_NEXT, "getenv");
  const int none = dlsym(RTLD_DEFAULT, "no_such_function") == 0 && dlerror() != 0;
  void* self = dlopen(0, RTLD_NOW);
  printf("%lu %d %d %d %d\n", (unsigned long)twice, same, none, self != 0 && dlsym(self, "malloc") != 0,
         Child(Echo, 0));
  return 0;
}

static int Reduce(void* comm) {
  int failed = 0;
  for (unsigned long i = 1; i <= 100; ++i) failed += reduce((void*)0x1000, (void*)0x2000, i, 7, 0, comm, (void*)0x6000);
  return failed;
}

static int Nccl(void) {
  UniqueId id;
  void* comm = 0;
  int failed = get_id(&id) + init(&comm, 4, id, 1);
  errno = 77;
  failed += Reduce(comm);
  const int kept = errno;
  const int child = Child(Reduce, comm);
  failed += Reduce(comm);
  printf("%d %d %d\n", failed, kept, child);
  return failed;
}

static int ByHand(const char* library) {
  void* opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == 0) return 2;
  *(void**)&get_id = dlsym(opened, "ncclGetUniqueId");
  *(void**)&init = dlsym(opened, "ncclCommInitRank");
  *(void**)&reduce = dlsym(opened, "ncclAllReduce");
  return get_id != 0 && init != 0 && reduce != 0 ? Nccl() : 3;
}

int main(int argc, char** argv) {
  if (argc > 2 && strcmp(argv[1], "by-hand") == 0) return ByHand(argv[2]);
  return argc > 1 && strcmp(argv[1], "linked") == 0 ? Nccl() : Plain();
}
