// A program for the profiler plugin's tests: one process that drives two devices. Linked twice, with NCCL as a library
// and statically.
//   recorder_profiler_host MODE
#include <cuda_runtime.h>
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "recorder/testing/check.h"

namespace {

constexpr int kDevices = 2;
constexpr size_t kCount = 160 * 1024;  // 20 network steps

struct Job {
  ncclComm_t comms[kDevices];
  cudaStream_t streams[kDevices];
  float *send[kDevices], *recv[kDevices];

  void Make() {
    for (int i = 0; i < kDevices; ++i) {
      CHECK(cudaSetDevice(i));
      CHECK(cudaStreamCreate(&streams[i]));
      CHECK(cudaMalloc(reinterpret_cast<void**>(&send[i]), kCount * sizeof(float)));
      CHECK(cudaMalloc(reinterpret_cast<void**>(&recv[i]), kCount * sizeof(float)));
    }
    CHECK(ncclCommInitAll(comms, kDevices, nullptr));
  }
  void AllReduce(size_t count) {
    CHECK(ncclGroupStart());
    for (int i = 0; i < kDevices; ++i) {
      CHECK(ncclAllReduce(send[i], recv[i], count, ncclFloat, ncclSum, comms[i], streams[i]));
    }
    CHECK(ncclGroupEnd());
  }
  void Wait() {
    for (int i = 0; i < kDevices; ++i) {
      CHECK(cudaSetDevice(i));
      CHECK(cudaStreamSynchronize(streams[i]));
    }
  }
  void End() {
    Wait();
    for (int i = 0; i < kDevices; ++i) CHECK(ncclCommDestroy(comms[i]));
  }
};

// Runs large operations one after another.
int Network() {
  Job job;
  job.Make();
  for (int n = 0; n < 3; ++n) job.AllReduce(kCount);
  job.End();
  return 0;
}

// Makes more small operations than a ring file has entries for kernels.
int Many() {
  Job job;
  job.Make();
  for (int n = 0; n < 1500; ++n) {
    job.AllReduce(16);
    if (n % 50 != 0) continue;
    job.Wait();
    usleep(20000);  // the thread that reports to the plugin may be late
  }
  job.End();
  return 0;
}

// The plugin is closed with the last communicator and opened again with the next one.
int Again() {
  for (int n = 0; n < 3; ++n) {
    Job job;
    job.Make();
    job.AllReduce(kCount);
    job.End();
  }
  return 0;
}

// Each device has an operation in its own graph, launched four times.
int Replay() {
  Job job;
  job.Make();
  job.AllReduce(kCount);
  job.Wait();
  cudaGraph_t graphs[kDevices];
  cudaGraphExec_t runnable[kDevices];
  for (cudaStream_t stream : job.streams) CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  job.AllReduce(kCount);
  for (int i = 0; i < kDevices; ++i) {
    CHECK(cudaStreamEndCapture(job.streams[i], &graphs[i]));
    CHECK(cudaGraphInstantiate(&runnable[i], graphs[i], 0));
  }
  for (int n = 0; n < 4; ++n) {
    for (int i = 0; i < kDevices; ++i) {
      CHECK(cudaSetDevice(i));
      CHECK(cudaGraphLaunch(runnable[i], job.streams[i]));
    }
  }
  job.End();
  return 0;
}

// Leaves a group open.
int OpenGroup() {
  Job job;
  job.Make();
  job.AllReduce(16);
  CHECK(ncclGroupStart());
  CHECK(ncclAllReduce(job.send[0], job.recv[0], 16, ncclFloat, ncclSum, job.comms[0], job.streams[0]));
  pause();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  if (std::strcmp(mode, "network") == 0) return Network();
  if (std::strcmp(mode, "many") == 0) return Many();
  if (std::strcmp(mode, "again") == 0) return Again();
  if (std::strcmp(mode, "replay") == 0) return Replay();
  if (std::strcmp(mode, "open-group") == 0) return OpenGroup();
  std::fprintf(stderr, "usage: recorder_profiler_host network|many|again|replay|open-group\n");
  return 2;
}
