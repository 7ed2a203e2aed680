// Calls NCCL or CUDA many times on several threads and prints nanoseconds of CPU time per call. Run it with and without
// the recorder preloaded. The default libraries do nothing; with the stand-ins in LD_LIBRARY_PATH, the program calls
// these.
//   recorder_calls KIND THREADS CALLS      prints the median of the runs, one number
//   KIND: collective
//         group             16 sends and receives
//         cuda              event record, stream wait and stream synchronization
//         dlsym
//         first, first-cpu  nanoseconds for the first communicator and collective: elapsed or processor time
//         memory            KiB of private memory after many calls
#include <dlfcn.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

#include "tests/support/nccl_calls.h"

extern "C" {
int cudaStreamCreate(void**);
int cudaEventCreate(void**);
int cudaEventRecord(void*, void*);
int cudaStreamWaitEvent(void*, void*, unsigned);
int cudaStreamSynchronize(void*);
}

namespace {

constexpr int kRuns = 11;
constexpr unsigned long kCount = 16;
char g_send[64 << 10], g_recv[64 << 10];

double Read(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}
double ThreadCpuNs() { return Read(CLOCK_THREAD_CPUTIME_ID); }

struct Work {
  const char* kind;
  int members = 8;
  void *comm = nullptr, *stream = nullptr, *other = nullptr, *event = nullptr;

  bool Is(const char* name) const { return std::strcmp(kind, name) == 0; }
  void Begin() {
    members = std::getenv("RECORDER_CALLS_ALONE") != nullptr ? 1 : 8;
    UniqueId id;
    ncclGetUniqueId(&id);
    ncclCommInitRank(&comm, members, id, members == 8 ? 3 : 0);
    cudaStreamCreate(&stream);
    cudaStreamCreate(&other);
    cudaEventCreate(&event);
  }
  void Collective() const { ncclAllReduce(g_send, g_recv, kCount, 7, 0, comm, stream); }
  void Do(int calls) const {
    if (Is("group")) {
      for (int i = 0; i < calls; i += 16) {
        ncclGroupStart();
        for (int peer = 0; peer < 8; ++peer) {
          ncclSend(g_send, kCount, 7, peer % members, comm, stream);
          ncclRecv(g_recv, kCount, 7, peer % members, comm, stream);
        }
        ncclGroupEnd();
      }
    } else if (Is("cuda")) {
      for (int i = 0; i < calls; i += 3) {
        cudaEventRecord(event, stream);
        cudaStreamWaitEvent(other, event, 0);
        cudaStreamSynchronize(stream);
      }
    } else if (Is("dlsym")) {
      for (int i = 0; i < calls; ++i) asm volatile("" : : "r"(dlsym(RTLD_DEFAULT, "printf")));
    } else {
      for (int i = 0; i < calls; ++i) Collective();
    }
  }
  double NsPerCall(int calls) const {
    const double begin = ThreadCpuNs();
    Do(calls);
    const double ns = (ThreadCpuNs() - begin) / calls;
    if (!Is("dlsym")) cudaStreamSynchronize(stream);
    return ns;
  }
};

// Returns the private memory of this process: all pages except those of files and shared memory.
long PrivateKib() {
  FILE* file = std::fopen("/proc/self/status", "r");
  char line[256];
  long kib = -1;
  while (file != nullptr && std::fgets(line, sizeof(line), file) != nullptr) {
    if (std::sscanf(line, "RssAnon: %ld", &kib) == 1) break;
  }
  if (file != nullptr) std::fclose(file);
  return kib;
}

}  // namespace

int main(int argc, char** argv) {
  const char* kind = argc > 1 ? argv[1] : "";
  const int threads = argc > 2 ? std::atoi(argv[2]) : 1;
  const int calls = argc > 3 ? std::atoi(argv[3]) : 1000000;
  if (argc < 2 || threads < 1 || threads > 64 || calls < 1) {
    std::fprintf(stderr, "usage: recorder_calls KIND THREADS CALLS\n");
    return 2;
  }
  if (std::strncmp(kind, "first", 5) == 0) {
    const clockid_t clock = std::strcmp(kind, "first") == 0 ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
    Work work{kind};
    UniqueId id;
    const double begin = Read(clock);
    ncclGetUniqueId(&id);
    ncclCommInitRank(&work.comm, 8, id, 3);
    work.Collective();
    std::printf("%.0f\n", Read(clock) - begin);
    return 0;
  }
  std::vector<double> results(static_cast<size_t>(threads) * kRuns);
  std::barrier together(threads);
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      Work work{kind};
      work.Begin();
      work.Collective();
      work.NsPerCall(calls / 10 + 1);
      for (int run = 0; run < kRuns; ++run) {
        together.arrive_and_wait();
        results[static_cast<size_t>(t * kRuns + run)] = work.NsPerCall(calls);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  if (std::strcmp(kind, "memory") == 0) {
    std::printf("%ld\n", PrivateKib());
    return 0;
  }
  std::nth_element(results.begin(), results.begin() + static_cast<long>(results.size() / 2), results.end());
  std::printf("%.2f\n", results[results.size() / 2]);
  return 0;
}
