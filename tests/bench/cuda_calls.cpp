// Measures what the recorder adds to calls of a CUDA runtime that does nothing: nanoseconds of CPU time on one thread.
// Run it with and without the recorder preloaded.
//   recorder_cuda_calls CALLS
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "tests/support/nccl_calls.h"

extern "C" {
int cudaEventRecord(void*, void*);
int cudaStreamWaitEvent(void*, void*, unsigned);
int cudaStreamSynchronize(void*);
int cudaMemcpy(void*, const void*, unsigned long, int);
int cudaMemcpyAsync(void*, const void*, unsigned long, int, void*);
int cudaStreamBeginCapture(void*, int);
int cudaStreamEndCapture(void*, void**);
int cudaGraphInstantiate(void**, void*, uint64_t, void*, unsigned long);
int cudaGraphLaunch(void*, void*);
}

namespace {

void* Address(unsigned long value) { return reinterpret_cast<void*>(value); }

double ThreadCpuNs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

template <typename Call>
void Print(const char* what, int calls, Call call) {
  std::vector<double> runs;
  for (int run = 0; run < 11; ++run) {
    const double begin = ThreadCpuNs();
    for (int i = 0; i < calls; ++i) call(i);
    runs.push_back((ThreadCpuNs() - begin) / calls);
  }
  std::sort(runs.begin(), runs.end());
  std::printf("  %-52s %7.1f ns\n", what, runs[runs.size() / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 100000;
  UniqueId id{};
  void *comm = nullptr, *stream = Address(0x5000), *other = Address(0x6000), *graph = nullptr, *exec = nullptr;
  if (ncclGetUniqueId(&id) != 0 || ncclCommInitRank(&comm, 1, id, 0) != 0) return 1;
  auto reduce = [&](void* on) { return ncclAllReduce(Address(0x10000), Address(0x20000), 1024, 7, 0, comm, on); };
  reduce(stream);
  reduce(other);
  Print("cudaEventRecord, of 64 events", calls,
        [&](int i) { cudaEventRecord(Address(0x7000 + 64ul * (i % 64)), stream); });
  Print("cudaStreamWaitEvent", calls, [&](int i) { cudaStreamWaitEvent(other, Address(0x7000 + 64ul * (i % 64)), 0); });
  Print("cudaStreamSynchronize", calls, [&](int) { cudaStreamSynchronize(stream); });
  Print("cudaMemcpy, blocking", calls, [&](int) { cudaMemcpy(Address(0x10000), Address(0x20000), 8, 1); });
  Print("cudaMemcpyAsync", calls, [&](int) { cudaMemcpyAsync(Address(0x10000), Address(0x20000), 8, 2, stream); });
  Print("cudaMemcpyAsync, on the default stream", calls,
        [&](int) { cudaMemcpyAsync(Address(0x10000), Address(0x20000), 8, 2, nullptr); });
  Print("cudaGraphLaunch, no NCCL operation in it", calls, [&](int) { cudaGraphLaunch(Address(0x9000), stream); });
  for (const int operations : {1, 200}) {
    cudaStreamBeginCapture(stream, 0);
    for (int i = 0; i < operations; ++i) reduce(stream);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&exec, graph, 0, nullptr, 0);
    Print(operations == 1 ? "cudaGraphLaunch, 1 operation" : "cudaGraphLaunch, 200 operations", calls,
          [&](int) { cudaGraphLaunch(exec, stream); });
  }
  return 0;
}
