// Calls an NCCL many times from some threads and prints nanoseconds of processor time per call: run with and without
// the recorder preloaded.
//   recorder_calls THREADS CALLS [group]      median of the runs on stdout, one number
#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

struct UniqueId {
  char bytes[128];
};
extern "C" {
int ncclGetUniqueId(UniqueId*);
int ncclCommInitRank(void**, int, UniqueId, int);
int ncclAllReduce(const void*, void*, unsigned long, int, int, void*, void*);
int ncclSend(const void*, unsigned long, int, int, void*, void*);
int ncclRecv(void*, unsigned long, int, int, void*, void*);
int ncclGroupStart();
int ncclGroupEnd();
}

namespace {

constexpr int kRuns = 11;

void* Address(unsigned long value) {
  return reinterpret_cast<void*>(value);
}

// Processor time of the calling thread: what the call costs, whatever else the machine is doing.
double ThreadCpuNs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double NsPerCall(int calls, bool group, void* comm, void* stream) {
  const double begin = ThreadCpuNs();
  if (group) {
    for (int i = 0; i < calls; i += 16) {
      ncclGroupStart();
      for (int peer = 0; peer < 8; ++peer) {
        ncclSend(Address(0x10000), 1024, 7, peer, comm, stream);
        ncclRecv(Address(0x20000), 1024, 7, peer, comm, stream);
      }
      ncclGroupEnd();
    }
  } else {
    for (int i = 0; i < calls; ++i) {
      ncclAllReduce(Address(0x10000), Address(0x20000), 1024, 7, 0, comm, stream);
    }
  }
  return (ThreadCpuNs() - begin) / calls;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const int calls = argc > 2 ? std::atoi(argv[2]) : 1000000;
  const bool group = argc > 3 && std::strcmp(argv[3], "group") == 0;
  if (threads < 1 || threads > 64 || calls < 1) {
    std::fprintf(stderr, "usage: recorder_calls THREADS CALLS [group]\n");
    return 2;
  }
  std::vector<double> results(static_cast<size_t>(threads) * kRuns);
  std::barrier together(threads);
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      UniqueId id;
      ncclGetUniqueId(&id);
      void* comm = nullptr;
      ncclCommInitRank(&comm, 8, id, 3);
      void* stream = Address(0x1000 + 0x1000ul * static_cast<unsigned long>(t));
      NsPerCall(calls / 10 + 1, group, comm, stream);
      for (int run = 0; run < kRuns; ++run) {
        together.arrive_and_wait();
        results[static_cast<size_t>(t * kRuns + run)] = NsPerCall(calls, group, comm, stream);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  std::nth_element(results.begin(), results.begin() + static_cast<long>(results.size() / 2), results.end());
  std::printf("%.2f\n", results[results.size() / 2]);
  return 0;
}
