// A program that calls NCCL in the ways that the recorder must handle. The preload tests run it with and without the
// recorder. The program prints what calls returned, so that the two runs can be compared.
//   recorder_host MODE
#include <cuda_runtime.h>
#include <errno.h>
#include <nccl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "recorder/testing/check.h"

namespace {

constexpr int kDevices = 2;
constexpr size_t kCount = 256;

struct Device {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float* send = nullptr;
  float* recv = nullptr;
};

std::vector<Device> MakeDevices() {
  std::vector<Device> devices(kDevices);
  for (int i = 0; i < kDevices; ++i) {
    Device& device = devices[static_cast<size_t>(i)];
    CHECK(cudaSetDevice(i));
    CHECK(cudaStreamCreate(&device.stream));
    CHECK(cudaMalloc(reinterpret_cast<void**>(&device.send), kCount * sizeof(float) * 4));
    CHECK(cudaMalloc(reinterpret_cast<void**>(&device.recv), kCount * sizeof(float) * 4));
  }
  return devices;
}

void Finish(std::vector<Device>* devices) {
  for (int i = 0; i < kDevices; ++i) {
    Device& device = (*devices)[static_cast<size_t>(i)];
    CHECK(cudaSetDevice(i));
    CHECK(cudaStreamSynchronize(device.stream));
  }
  for (int i = 0; i < kDevices; ++i) {
    Device& device = (*devices)[static_cast<size_t>(i)];
    CHECK(cudaSetDevice(i));
    CHECK(ncclCommDestroy(device.comm));
    CHECK(cudaFree(device.send));
    CHECK(cudaFree(device.recv));
    CHECK(cudaStreamDestroy(device.stream));
  }
}

// One process drives two devices: InitAll, every collective in a group of both, sends and receives, a grouped split.
int Kinds() {
  std::vector<Device> devices = MakeDevices();
  ncclComm_t comms[kDevices];
  CHECK(ncclCommInitAll(comms, kDevices, nullptr));
  for (int i = 0; i < kDevices; ++i) devices[static_cast<size_t>(i)].comm = comms[i];
#define ON_BOTH(CALL)            \
  do {                           \
    CHECK(ncclGroupStart());     \
    for (Device & d : devices) { \
      CHECK(CALL);               \
    }                            \
    CHECK(ncclGroupEnd());       \
  } while (0)
  ON_BOTH(ncclAllReduce(d.send, d.recv, kCount, ncclFloat, ncclSum, d.comm, d.stream));
  ON_BOTH(ncclReduce(d.send, d.recv, kCount, ncclFloat, ncclMax, 1, d.comm, d.stream));
  ON_BOTH(ncclBroadcast(d.send, d.recv, kCount, ncclFloat, 0, d.comm, d.stream));
  ON_BOTH(ncclBcast(d.recv, kCount, ncclFloat, 1, d.comm, d.stream));
  ON_BOTH(ncclAllGather(d.send, d.recv, kCount, ncclFloat, d.comm, d.stream));
  ON_BOTH(ncclReduceScatter(d.send, d.recv, kCount, ncclFloat, ncclSum, d.comm, d.stream));
  ON_BOTH(ncclAlltoAll(d.send, d.recv, kCount, ncclFloat, d.comm, d.stream));
  ON_BOTH(ncclGather(d.send, d.recv, kCount, ncclFloat, 0, d.comm, d.stream));
  ON_BOTH(ncclScatter(d.send, d.recv, kCount, ncclFloat, 0, d.comm, d.stream));
  CHECK(ncclGroupStart());
  for (int i = 0; i < kDevices; ++i) {
    Device& d = devices[static_cast<size_t>(i)];
    CHECK(ncclSend(d.send, kCount, ncclFloat, 1 - i, d.comm, d.stream));
    CHECK(ncclRecv(d.recv, kCount, ncclFloat, 1 - i, d.comm, d.stream));
  }
  CHECK(ncclGroupEnd());
  // The children's handles are stored only when the group ends.
  ncclComm_t children[kDevices] = {};
  CHECK(ncclGroupStart());
  for (int i = 0; i < kDevices; ++i) CHECK(ncclCommSplit(comms[i], 7, -i, &children[i], nullptr));
  CHECK(ncclGroupEnd());
  CHECK(ncclGroupStart());
  for (int i = 0; i < kDevices; ++i) {
    Device& d = devices[static_cast<size_t>(i)];
    CHECK(ncclAllReduce(d.send, d.recv, kCount, ncclFloat, ncclSum, children[i], d.stream));
  }
  CHECK(ncclGroupEnd());
  for (int i = 0; i < kDevices; ++i) {
    CHECK(cudaSetDevice(i));
    CHECK(cudaStreamSynchronize(devices[static_cast<size_t>(i)].stream));
  }
  for (ncclComm_t child : children) CHECK(ncclCommDestroy(child));
  Finish(&devices);
  return 0;
}

// One thread drives each device, with one unique ID.
int Threads() {
  std::vector<Device> devices = MakeDevices();
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int i = 0; i < kDevices; ++i) {
    threads.emplace_back([&devices, id, i] {
      Device& d = devices[static_cast<size_t>(i)];
      CHECK(cudaSetDevice(i));
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.commName = "named";
      CHECK(ncclCommInitRankConfig(&d.comm, kDevices, id, i, &config));
      for (int n = 0; n < 100; ++n) {
        CHECK(ncclAllReduce(d.send, d.recv, kCount, ncclFloat, ncclSum, d.comm, d.stream));
      }
      CHECK(cudaStreamSynchronize(d.stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  Finish(&devices);
  return 0;
}

void AwaitSuccess(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) CHECK(ncclCommGetAsyncError(comm, &state));
  CHECK(state);
}

// Uses a non-blocking communicator with one rank, a child whose handle comes late, and a split without a color.
int Nonblocking() {
  cudaStream_t stream;
  float* buffer;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMalloc(reinterpret_cast<void**>(&buffer), kCount * sizeof(float)));
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr, child = nullptr, none = nullptr;
  ncclResult_t result = ncclCommInitRankConfig(&comm, 1, id, 0, &config);
  if (result != ncclInProgress) CHECK(result);
  AwaitSuccess(comm);
  result = ncclCommSplit(comm, 3, 0, &child, nullptr);
  if (result != ncclInProgress) CHECK(result);
  AwaitSuccess(comm);
  if (child == nullptr) return 1;
  AwaitSuccess(child);
  result = ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &none, nullptr);
  if (result != ncclInProgress) CHECK(result);
  AwaitSuccess(comm);
  result = ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, child, stream);
  if (result != ncclInProgress) CHECK(result);
  AwaitSuccess(child);
  CHECK(cudaStreamSynchronize(stream));
  ncclCommFinalize(child);
  AwaitSuccess(child);
  CHECK(ncclCommDestroy(child));
  ncclCommFinalize(comm);
  AwaitSuccess(comm);
  CHECK(ncclCommDestroy(comm));
  return 0;
}

// Forks a child that leaves its parent's ring alone and gets its own ring with its first communicator. With
// `parent_first`, the parent uses NCCL before the fork.
int Fork(bool parent_first) {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  if (parent_first) {
    CHECK(ncclGetUniqueId(&id));
    CHECK(ncclCommInitRank(&comm, 1, id, 0));
  }
  const pid_t child = fork();
  if (child == 0) {
    ncclComm_t own = nullptr;
    ncclGroupStart();  // these calls must not touch the parent's state
    ncclGroupEnd();
    CHECK(ncclGetUniqueId(&id));
    CHECK(ncclCommInitRank(&own, 1, id, 0));
    float* buffer;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(reinterpret_cast<void**>(&buffer), kCount * sizeof(float)));
    CHECK(ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, own, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(ncclCommDestroy(own));
    std::exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child ? 0 : 1);
  CHECK(status);
  if (parent_first) CHECK(ncclCommDestroy(comm));
  return 0;
}

// Prints results and errno of valid and invalid calls, to be compared with a run without the recorder.
int Results() {
  errno = 77;
  auto say = [](const char* what, int result) { std::printf("%s %d errno %d\n", what, result, errno); };
  int version = 0;
  say("version", ncclGetVersion(&version));
  std::printf("%d %s\n", version, ncclGetErrorString(ncclInvalidUsage));
  say("end without start", ncclGroupEnd());
  say("all reduce on nothing", ncclAllReduce(nullptr, nullptr, 1, ncclFloat, ncclSum, nullptr, nullptr));
  ncclUniqueId id;
  say("id", ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr;
  say("rank out of range", ncclCommInitRank(&comm, 2, id, 5));
  errno = 78;
  say("init", ncclCommInitRank(&comm, 1, id, 0));
  cudaStream_t stream;
  float* buffer;
  say("stream", cudaStreamCreate(&stream));
  say("malloc", cudaMalloc(reinterpret_cast<void**>(&buffer), kCount * sizeof(float)));
  errno = 79;
  say("all reduce", ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, comm, stream));
  say("bad type", ncclAllReduce(buffer, buffer, kCount, static_cast<ncclDataType_t>(99), ncclSum, comm, stream));
  say("bad root", ncclBroadcast(buffer, buffer, kCount, ncclFloat, 9, comm, stream));
  say("bad peer", ncclSend(buffer, kCount, ncclFloat, 9, comm, stream));
  say("group start", ncclGroupStart());
  say("bad root in a group", ncclBroadcast(buffer, buffer, kCount, ncclFloat, 9, comm, stream));
  say("its end", ncclGroupEnd());
  say("bad stream", cudaStreamWaitEvent(stream, nullptr, 0));
  say("free nothing", cudaFree(nullptr));
  say("synchronize", cudaStreamSynchronize(stream));
  say("device", cudaDeviceSynchronize());
  ncclResult_t state;
  say("async", ncclCommGetAsyncError(comm, &state));
  int count = 0;
  say("count", ncclCommCount(comm, &count));
  say("destroy", ncclCommDestroy(comm));
  say("destroy nothing", ncclCommDestroy(nullptr));
  return 0;
}

// Uses a non-blocking communicator in groups.
int NonblockingGroup() {
  cudaStream_t stream;
  float* buffer;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMalloc(reinterpret_cast<void**>(&buffer), kCount * sizeof(float)));
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  ncclResult_t result = ncclCommInitRankConfig(&comm, 1, id, 0, &config);
  if (result != ncclInProgress) CHECK(result);
  AwaitSuccess(comm);
  for (int i = 0; i < 3; ++i) {
    CHECK(ncclGroupStart());
    result = ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, comm, stream);
    if (result != ncclInProgress) CHECK(result);
    result = ncclGroupEnd();
    if (result != ncclInProgress) CHECK(result);
    AwaitSuccess(comm);
  }
  CHECK(cudaStreamSynchronize(stream));
  ncclCommFinalize(comm);
  AwaitSuccess(comm);
  CHECK(ncclCommDestroy(comm));
  return 0;
}

// One thread uses the default streams of two devices, while one device is current.
int DefaultStreams() {
  std::vector<Device> devices = MakeDevices();
  ncclComm_t comms[kDevices];
  CHECK(ncclCommInitAll(comms, kDevices, nullptr));
  CHECK(cudaSetDevice(0));
  for (int round = 0; round < 3; ++round) {
    CHECK(ncclGroupStart());
    for (int i = 0; i < kDevices; ++i) {
      Device& d = devices[static_cast<size_t>(i)];
      CHECK(ncclAllReduce(d.send, d.recv, kCount, ncclFloat, ncclSum, comms[i], nullptr));
    }
    CHECK(ncclGroupEnd());
  }
  for (int i = 0; i < kDevices; ++i) {
    CHECK(cudaSetDevice(i));
    CHECK(cudaStreamSynchronize(nullptr));
    devices[static_cast<size_t>(i)].comm = comms[i];
  }
  Finish(&devices);
  return 0;
}

// Issues many operations on one stream, some of them in groups, with events and waits of another stream.
int Long(int rounds) {
  cudaStream_t stream, other;
  float* buffer;
  cudaEvent_t event;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamCreate(&other));
  CHECK(cudaEventCreate(&event));
  CHECK(cudaMalloc(reinterpret_cast<void**>(&buffer), kCount * sizeof(float)));
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRank(&comm, 1, id, 0));
  int bad = 0;
  for (int i = 0; i < rounds; ++i) {
    if (i % 8 == 0) CHECK(ncclGroupStart());
    bad += ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, comm, stream) != ncclSuccess;
    if (i % 8 == 0) CHECK(ncclGroupEnd());
    if (i % 16 == 0) {
      CHECK(cudaEventRecord(event, stream));
      CHECK(cudaStreamWaitEvent(other, event, 0));
    }
    if (i % 64 == 0) CHECK(cudaStreamSynchronize(stream));
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(ncclCommDestroy(comm));
  std::printf("%d\n", bad);
  return 0;
}

// Streams are created and destroyed on two devices in turn, and their handles are reused.
int StreamChurn(int rounds) {
  std::vector<Device> devices = MakeDevices();
  for (int i = 0; i < kDevices; ++i) {
    CHECK(cudaSetDevice(i));
    ncclUniqueId id;
    CHECK(ncclGetUniqueId(&id));
    CHECK(ncclCommInitRank(&devices[static_cast<size_t>(i)].comm, 1, id, 0));
  }
  for (int i = 0; i < rounds; ++i) {
    Device& d = devices[static_cast<size_t>(i % kDevices)];
    CHECK(cudaSetDevice(i % kDevices));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(ncclAllReduce(d.send, d.recv, kCount, ncclFloat, ncclSum, d.comm, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamDestroy(stream));
  }
  Finish(&devices);
  return 0;
}

// Makes 37 calls and is then killed. The ring must contain all of them.
int Die() {
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRank(&comm, 1, id, 0));
  cudaStream_t stream;
  float* buffer;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMalloc(reinterpret_cast<void**>(&buffer), kCount * sizeof(float)));
  for (int i = 0; i < 37; ++i) CHECK(ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, comm, stream));
  CHECK(cudaStreamSynchronize(stream));
  kill(getpid(), SIGKILL);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  if (std::strcmp(mode, "kinds") == 0) return Kinds();
  if (std::strcmp(mode, "threads") == 0) return Threads();
  if (std::strcmp(mode, "nonblocking") == 0) return Nonblocking();
  if (std::strcmp(mode, "fork") == 0) return Fork(false);
  if (std::strcmp(mode, "fork-after") == 0) return Fork(true);
  if (std::strcmp(mode, "results") == 0) return Results();
  if (std::strcmp(mode, "nonblocking-group") == 0) return NonblockingGroup();
  if (std::strcmp(mode, "default-streams") == 0) return DefaultStreams();
  if (std::strcmp(mode, "stream-churn") == 0) return StreamChurn(argc > 2 ? std::atoi(argv[2]) : 10);
  if (std::strcmp(mode, "long") == 0) return Long(argc > 2 ? std::atoi(argv[2]) : 1000);
  if (std::strcmp(mode, "die") == 0) return Die();
  std::fprintf(stderr,
               "usage: recorder_host kinds|threads|nonblocking|nonblocking-group|default-streams|stream-churn "
               "ROUNDS|long ROUNDS|fork|fork-after|results|die\n");
  return 2;
}
