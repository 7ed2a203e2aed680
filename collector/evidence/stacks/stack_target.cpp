// A process with known stacks, for evidence_test: stack_target MODE [NUMBER]. Prints "ready" when its threads have
// reached their places.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace target {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
std::atomic<int> there{0};
std::atomic<uint64_t> spins{0};

__attribute__((noinline)) void WaitInNobodysName(int depth) {
  pthread_mutex_lock(&mutex);
  ++there;
  while (depth >= 0)  // NOLINT(bugprone-infinite-loop): nobody signals
    pthread_cond_wait(&condition, &mutex);
  pthread_mutex_unlock(&mutex);
}

__attribute__((noinline)) uint64_t SpinForever(volatile uint64_t* out) {
  for (;;) *out = spins.fetch_add(1) + 1;
}

void* Waiter(void*) {
  WaitInNobodysName(1);
  there += 1000;  // prevents a tail call
  return nullptr;
}

void* Spinner(void*) {
  volatile uint64_t sink = 0;
  ++there;
  SpinForever(&sink);
  return nullptr;
}

__attribute__((noinline)) int Deeper(int left, volatile char* before) {
  volatile char here[16] = {};
  here[0] = before == nullptr ? 1 : before[0];
  if (left <= 0) {
    ++there;
    while (there >= 0) pause();
    return 0;
  }
  const int below = Deeper(left - 1, here);
  return below + here[0];
}

void Start(void* (*function)(void*), int count, size_t stack = 64 << 10) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack);
  for (int i = 0; i < count; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, function, nullptr) != 0) _exit(3);
  }
}

int depth = 0;
void* DeepThread(void*) {
  Deeper(depth, nullptr);
  return nullptr;
}

void Ready(int threads) {
  const timespec pause{0, 1'000'000};
  while (there < threads) nanosleep(&pause, nullptr);
  if (write(1, "ready\n", 6) != 6) _exit(4);
}

}  // namespace target

int main(int argc, char** argv) {
  using namespace target;
  const char* mode = argc > 1 ? argv[1] : "";
  const int number = argc > 2 ? atoi(argv[2]) : 1;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (strcmp(mode, "blocked") == 0) {
    Start(Waiter, number);
    Ready(number);
    for (;;) pause();
  } else if (strcmp(mode, "busy") == 0) {
    Start(Spinner, 1);
    Ready(1);
    for (;;) pause();
  } else if (strcmp(mode, "deep") == 0) {
    depth = number;
    Start(DeepThread, 1, 64 << 20);
    Ready(1);
    for (;;) pause();
  } else if (strcmp(mode, "undumpable") == 0) {
    prctl(PR_SET_DUMPABLE, 0);
    Ready(0);
    for (;;) pause();
  } else if (strcmp(mode, "vfork") == 0) {
    Ready(0);
    // The parent of a vfork sleeps uninterruptibly until its child is gone.
    if (vfork() == 0) {
      for (;;) pause();
    }
  } else if (strcmp(mode, "brief") == 0) {
    // Threads start and exit, and soon the process exits.
    Ready(0);
    for (int i = 0; i < number; ++i) {
      pthread_t threads[16];
      for (pthread_t& thread : threads)
        pthread_create(
            &thread, nullptr, [](void*) -> void* { return nullptr; }, nullptr);
      for (pthread_t& thread : threads) pthread_join(thread, nullptr);
    }
    return 0;
  }
  return 2;
}
