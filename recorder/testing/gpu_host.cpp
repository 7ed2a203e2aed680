// A program that uses GPUs in ways that markers and events must survive. gpu_test.cpp runs it. The program prints a
// line when the test can check something, continues when it reads a line, and exits when its input ends.
//   recorder_gpu_host MODE
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>
#include <standin.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "recorder/testing/check.h"

namespace {

constexpr size_t kCount = 64;

#define EXPECT(what) Check((what) ? 0 : -1, #what, __LINE__)

void Say(const char* text) {
  std::printf("%s\n", text);
  std::fflush(stdout);
}

// Returns false if the input has ended.
bool Await() {
  char line[64];
  return std::fgets(line, sizeof(line), stdin) != nullptr;
}

std::atomic<bool> g_gate{false};
void Gate(void*) {
  while (!g_gate.load()) usleep(200);
}
void Close(cudaStream_t stream) {
  g_gate = false;
  CHECK(cudaLaunchHostFunc(stream, Gate, nullptr));
}

CUstream Driver(cudaStream_t stream) { return reinterpret_cast<CUstream>(stream); }

float* Buffer() {
  float* buffer = nullptr;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&buffer), kCount * sizeof(float)));
  return buffer;
}

// Creates a communicator of this process alone, on a device.
ncclComm_t Alone(int device, bool blocking = true) {
  int before = 0;
  CHECK(cudaGetDevice(&before));
  CHECK(cudaSetDevice(device));
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  ncclComm_t comm = nullptr;
  const ncclResult_t result = ncclCommInitRankConfig(&comm, 1, id, 0, &config);
  if (result != ncclInProgress) CHECK(result);
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) CHECK(ncclCommGetAsyncError(comm, &state));
  CHECK(state);
  CHECK(cudaSetDevice(before));
  return comm;
}

std::vector<ncclComm_t> Pair() {
  std::vector<ncclComm_t> comms(2);
  CHECK(ncclCommInitAll(comms.data(), 2, nullptr));
  CHECK(cudaSetDevice(0));
  return comms;
}

float* g_buffer;
void Reduce(ncclComm_t comm, cudaStream_t stream) {
  CHECK(ncclAllReduce(g_buffer, g_buffer, kCount, ncclFloat, ncclSum, comm, stream));
}

// Issues groups over two streams and two communicators. One stream is blocked.
int Groups() {
  ncclComm_t a = Alone(0), b = Alone(0);
  cudaStream_t open, closed;
  CHECK(cudaStreamCreateWithFlags(&open, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&closed, cudaStreamNonBlocking));
  Reduce(a, open);
  Reduce(b, closed);
  CHECK(cudaDeviceSynchronize());
  Close(closed);
  CHECK(ncclGroupStart());
  Reduce(a, open);
  CHECK(ncclGroupStart());
  Reduce(b, closed);
  CHECK(ncclSend(g_buffer, kCount, ncclFloat, 0, b, closed));
  CHECK(ncclRecv(g_buffer, kCount, ncclFloat, 0, b, closed));
  CHECK(ncclGroupEnd());
  Reduce(a, open);
  Say("group is open");
  if (!Await()) return 1;
  CHECK(ncclGroupEnd());
  CHECK(cudaStreamSynchronize(open));
  Say("group was launched");
  if (!Await()) return 1;
  g_gate = true;
  CHECK(cudaStreamSynchronize(closed));
  Say("all is done");
  Await();
  return 0;
}

// The second device's member never joins the operation.
int NeverEnds() {
  std::vector<ncclComm_t> comms = Pair();
  cudaStream_t streams[2];
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaSetDevice(i));
    CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
  }
  CHECK(cudaSetDevice(0));
  CHECK(ncclGroupStart());
  for (size_t i = 0; i < 2; ++i) Reduce(comms[i], streams[i]);
  CHECK(ncclGroupEnd());
  for (cudaStream_t stream : streams) CHECK(cudaStreamSynchronize(stream));
  Reduce(comms[0], streams[0]);
  Reduce(comms[0], streams[0]);
  Say("it hangs");
  Await();
  _exit(0);
}

// A stream never reaches its queued work.
int NeverReaches() {
  ncclComm_t comm = Alone(0);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Reduce(comm, stream);
  CHECK(cudaStreamSynchronize(stream));
  Close(stream);
  Reduce(comm, stream);
  Say("it hangs");
  Await();
  _exit(0);
}

// A GPU error ends the context while operations are queued behind it.
int Sticky() {
  ncclComm_t comm = Alone(0);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Reduce(comm, stream);
  CHECK(cudaStreamSynchronize(stream));
  // The recorder must leave the program's own error in place.
  EXPECT(cudaSetDevice(1000) == cudaErrorInvalidDevice);
  EXPECT(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  Close(stream);
  CHECK(standinFault(Driver(stream), CUDA_ERROR_ILLEGAL_ADDRESS));
  Reduce(comm, stream);
  Reduce(comm, stream);
  EXPECT(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  g_gate = true;
  EXPECT(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
  EXPECT(cudaPeekAtLastError() == cudaErrorIllegalAddress);
  EXPECT(ncclAllReduce(g_buffer, g_buffer, kCount, ncclFloat, ncclSum, comm, stream) == ncclUnhandledCudaError);
  EXPECT(cudaGetLastError() == cudaErrorIllegalAddress);
  Say("it is broken");
  Await();
  _exit(0);
}

// The program switches contexts and devices between calls, and uses legacy and per-thread default streams of another
// device.
int Contexts() {
  CHECK(cudaSetDevice(1));
  CUcontext second = nullptr;
  CHECK(cuCtxGetCurrent(&second));
  CHECK(cudaSetDevice(0));
  ncclComm_t comm = Alone(1);
  cudaStream_t stream;
  CHECK(cudaSetDevice(1));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaSetDevice(0));
  CUcontext first = nullptr, current = nullptr;
  CHECK(cuCtxGetCurrent(&first));
  for (int i = 0; i < 3; ++i) Reduce(comm, stream);
  CHECK(cuCtxGetCurrent(&current));
  EXPECT(current == first);
  // The blocked legacy stream of device 0 does not affect that of device 1.
  Close(nullptr);
  for (int i = 0; i < 2; ++i) Reduce(comm, nullptr);
  for (int i = 0; i < 4; ++i) Reduce(comm, cudaStreamPerThread);
  CHECK(cuCtxGetCurrent(&current));
  EXPECT(current == first);
  std::thread([&] {
    CUcontext none = second;
    CHECK(cuCtxGetCurrent(&none));
    EXPECT(none == nullptr);
    Reduce(comm, stream);
    Reduce(comm, cudaStreamPerThread);
    CHECK(cuCtxGetCurrent(&none));
    EXPECT(none == nullptr);
  }).join();
  CHECK(cudaSetDevice(1));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaSetDevice(0));
  Say("all is done");
  Await();
  g_gate = true;
  return 0;
}

// Streams are created and destroyed at one address by direct driver calls, which the recorder may not see.
int Reused() {
  ncclComm_t comm = Alone(0);
  CUstream stream = nullptr, again = nullptr;
  CHECK(cuStreamCreate(&stream, 1));
  Close(reinterpret_cast<cudaStream_t>(stream));
  Reduce(comm, reinterpret_cast<cudaStream_t>(stream));
  CHECK(cuStreamDestroy(stream));
  // The old stream's work is still in progress, so its markers come late.
  std::vector<CUstream> others;
  for (int i = 0; i < 20000; ++i) {
    CHECK(cuStreamCreate(&again, 1));
    if (again == stream) break;
    others.push_back(again);
    if (i == 0) {
      g_gate = true;  // the stream's address is free when its work has ended
      usleep(20000);
    }
  }
  Say(again == stream ? "same" : "other");
  for (int i = 0; i < 3; ++i) Reduce(comm, reinterpret_cast<cudaStream_t>(again));
  CHECK(cuStreamSynchronize(again));
  for (int i = 0; i < 300; ++i) {
    cudaStream_t short_lived;
    CHECK(cudaStreamCreateWithFlags(&short_lived, cudaStreamNonBlocking));
    Reduce(comm, short_lived);
    CHECK(cudaStreamSynchronize(short_lived));
    if (i % 2 == 0) {
      CHECK(cudaStreamDestroy(short_lived));
    } else {
      CHECK(cuStreamDestroy(Driver(short_lived)));
    }
  }
  Say("all is done");
  Await();
  return 0;
}

// Queues more operations than there are events.
int Many() {
  ncclComm_t comm = Alone(0);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 10; ++i) Reduce(comm, stream);
    CHECK(cudaStreamSynchronize(stream));
    usleep(3000);
  }
  Close(stream);
  // The number must fit into the launch queue: 256 operations have two events each, and the others have none.
  for (int i = 0; i < 500; ++i) Reduce(comm, stream);
  Say("all are queued");
  if (!Await()) return 1;
  g_gate = true;
  CHECK(cudaStreamSynchronize(stream));
  usleep(50000);
  for (int i = 0; i < 8; ++i) Reduce(comm, stream);
  CHECK(cudaStreamSynchronize(stream));
  std::printf("%zu events\n", standinEvents());
  std::fflush(stdout);
  Await();
  return 0;
}

// Runs operations of a known duration: the second member joins 20 ms later.
int Timed() {
  std::vector<ncclComm_t> comms = Pair();
  cudaStream_t streams[2];
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaSetDevice(i));
    CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
  }
  for (int i = 0; i < 8; ++i) {
    Reduce(comms[0], streams[0]);
    usleep(20000);
    Reduce(comms[1], streams[1]);
    for (cudaStream_t stream : streams) CHECK(cudaStreamSynchronize(stream));
  }
  Say("all is done");
  Await();
  return 0;
}

// The work of a non-blocking communicator reaches its stream late, and a blocking one uses the same stream meanwhile.
int Nonblocking() {
  ncclComm_t slow = Alone(0, false), quick = Alone(0);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Reduce(quick, stream);
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(ncclAllReduce(g_buffer, g_buffer, kCount, ncclFloat, ncclSum, slow, stream) == ncclInProgress);
  ncclResult_t state = ncclSuccess;
  CHECK(ncclCommGetAsyncError(slow, &state));
  EXPECT(state == ncclInProgress);
  Reduce(quick, stream);
  CHECK(cudaStreamSynchronize(stream));
  Say("the operation is being queued");
  if (!Await()) return 1;
  while (state == ncclInProgress) CHECK(ncclCommGetAsyncError(slow, &state));
  CHECK(state);
  CHECK(cudaStreamSynchronize(stream));
  Say("the operation was queued");
  if (!Await()) return 1;
  // In a group, only the end starts work, regardless of the state before.
  CHECK(ncclGroupStart());
  EXPECT(ncclAllReduce(g_buffer, g_buffer, kCount, ncclFloat, ncclSum, slow, stream) == ncclSuccess);
  CHECK(ncclCommGetAsyncError(slow, &state));
  EXPECT(state == ncclSuccess);
  EXPECT(ncclGroupEnd() == ncclInProgress);
  Say("a group is being queued");
  if (!Await()) return 1;
  state = ncclInProgress;
  while (state == ncclInProgress) CHECK(ncclCommGetAsyncError(slow, &state));
  CHECK(cudaStreamSynchronize(stream));
  // An aborted communicator delays no other communicator.
  EXPECT(ncclAllReduce(g_buffer, g_buffer, kCount, ncclFloat, ncclSum, slow, stream) == ncclInProgress);
  CHECK(ncclCommAbort(slow));
  Reduce(quick, stream);
  CHECK(cudaStreamSynchronize(stream));
  Say("all is done");
  Await();
  return 0;
}

// The process records and forks. One child has its own communicator; another child uses nothing.
int Forks() {
  const pid_t idle = fork();
  if (idle == 0) exit(0);
  int status = -1;
  CHECK(waitpid(idle, &status, 0) == idle ? status : -1);
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  CHECK(ncclGetUniqueId(&id));
  CHECK(ncclCommInitRank(&comm, 1, id, 0));
  for (int i = 0; i < 2; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      if (i == 1) exit(0);
      g_buffer = Buffer();
      cudaStream_t stream;
      CHECK(cudaStreamCreate(&stream));
      ncclComm_t own = Alone(0);
      for (int n = 0; n < 5; ++n) Reduce(own, stream);
      CHECK(cudaStreamSynchronize(stream));
      exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child ? status : -1);
  }
  g_buffer = Buffer();
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  for (int n = 0; n < 3; ++n) Reduce(comm, stream);
  CHECK(cudaStreamSynchronize(stream));
  Say("all is done");
  Await();
  return 0;
}

// The device reset destroys all streams and events, and new ones are created.
int Reset() {
  for (int round = 0; round < 3; ++round) {
    CHECK(cudaSetDevice(0));
    ncclComm_t comm = Alone(0);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < 50; ++i) Reduce(comm, stream);
    for (int i = 0; i < 3; ++i) Reduce(comm, nullptr);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaStreamSynchronize(nullptr));
    CHECK(ncclCommDestroy(comm));
    CHECK(cudaDeviceReset());
    g_buffer = Buffer();
  }
  Say("all is done");
  Await();
  return 0;
}

// Two threads use one stream. The order of their operations is unknown.
int Shared() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    ncclComm_t comm = Alone(0);
    threads.emplace_back([=] {
      CHECK(cudaSetDevice(0));
      for (int n = 0; n < 200; ++n) {
        CHECK(ncclGroupStart());
        Reduce(comm, stream);
        CHECK(ncclGroupEnd());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(cudaStreamSynchronize(stream));
  Say("all is done");
  Await();
  return 0;
}

// Collectives run on a stream that this thread captures from time to time in global mode, which forbids other threads
// many calls. Another thread makes NCCL calls meanwhile.
int Captures() {
  ncclComm_t comm = Alone(0), other = Alone(0);
  cudaStream_t stream, aside;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking));
  Reduce(other, aside);
  cudaGraph_t graph;
  for (int i = 0; i < 50; ++i) {
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    Reduce(comm, stream);
    std::thread([&] {
      CHECK(cudaSetDevice(0));
      cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
      CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
      cudaStream_t fresh;
      CHECK(cudaStreamCreateWithFlags(&fresh, cudaStreamNonBlocking));
      Reduce(other, aside);
      Reduce(other, fresh);
    }).join();
    usleep(2000);
    CHECK(cudaStreamEndCapture(stream, &graph));
    Reduce(comm, stream);
  }
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaStreamSynchronize(aside));
  Say("all is done");
  Await();
  return 0;
}

// Streams wait for each other in turn, as in a training step. The second stream must wait for the first between its
// own operations, twice, while no work of the first has completed.
int Waits() {
  ncclComm_t comm = Alone(0), other = Alone(0);
  cudaStream_t first, second;
  CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (int i = 0; i < 3; ++i) Reduce(comm, first);
  CHECK(cudaStreamSynchronize(first));
  // The work has ended before the event is recorded.
  CHECK(cudaEventRecord(event, first));
  CHECK(cudaStreamWaitEvent(second, event, 0));
  Close(first);
  for (int i = 0; i < 2; ++i) {
    Reduce(comm, first);
    Reduce(other, second);
    CHECK(cudaEventRecord(event, first));
    CHECK(cudaStreamWaitEvent(second, event, 0));
  }
  Reduce(other, second);
  Say("all wait");
  if (!Await()) return 1;
  g_gate = true;
  CHECK(cudaStreamSynchronize(second));
  return 0;
}

// One stream is busy, and an operation runs on another.
int Beside() {
  ncclComm_t comm = Alone(0), other = Alone(0);
  cudaStream_t busy, free;
  for (cudaStream_t* stream : {&busy, &free}) CHECK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
  Reduce(comm, busy);
  Reduce(other, free);
  CHECK(cudaDeviceSynchronize());
  Close(busy);
  Reduce(comm, busy);
  Reduce(other, free);
  int state = cudaErrorNotReady;
  for (int i = 0; i < 400 && state == cudaErrorNotReady; ++i) {
    state = cudaStreamQuery(free);
    usleep(1000);
  }
  Say(state == cudaErrorNotReady ? "it is held up" : "it ran");
  g_gate = true;
  CHECK(cudaDeviceSynchronize());
  Await();
  return 0;
}

// The work of a non-blocking communicator reaches its stream and completes. The stream is captured before any query.
int CapturedLate() {
  ncclComm_t slow = Alone(0, false), quick = Alone(0);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Reduce(quick, stream);
  EXPECT(ncclAllReduce(g_buffer, g_buffer, kCount, ncclFloat, ncclSum, slow, stream) == ncclInProgress);
  usleep(300000);
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  Reduce(quick, stream);
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) CHECK(ncclCommGetAsyncError(slow, &state));
  CHECK(state);
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT(nodes == 1);
  Reduce(quick, stream);
  CHECK(cudaStreamSynchronize(stream));
  Say("all is done");
  Await();
  return 0;
}

// Threads copy behind a blocked stream, one after another: first to pageable memory in every way, and then to pinned
// memory.
int Copies() {
  ncclComm_t comm = Alone(0);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Reduce(comm, stream);
  void* pageable = std::malloc(64);
  void* pinned = nullptr;
  CHECK(cudaMallocHost(&pinned, 64));
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  const auto by_name = reinterpret_cast<decltype(&cuMemcpyDtoHAsync)>(dlsym(driver, "cuMemcpyDtoHAsync_v2"));
  void* by_address = nullptr;
  CUdriverProcAddressQueryResult found;
  const auto find = reinterpret_cast<decltype(&cuGetProcAddress)>(dlsym(driver, "cuGetProcAddress_v2"));
  CHECK(find("cuMemcpyAsync", &by_address, 13000, 0, &found));
  const auto from = static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(g_buffer));
  const auto copy = [&](const std::string& way) -> int {
    const auto number = static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(pageable));
    const size_t bytes = 64;
    if (way == "2d") return cudaMemcpy2DAsync(pageable, 8, g_buffer, 8, 8, 8, cudaMemcpyDeviceToHost, stream);
    if (way == "peer") return cudaMemcpyPeerAsync(pageable, 0, g_buffer, 0, bytes, stream);
    if (way == "batch")
      return cudaMemcpyBatchAsync(&pageable, (const void**)&g_buffer, &bytes, 1, nullptr, nullptr, 0, stream);
    if (way == "ptsz") return cudaMemcpyAsync_ptsz(pageable, g_buffer, bytes, cudaMemcpyDeviceToHost, stream);
    if (way == "driver by name") return by_name(pageable, from, bytes, Driver(stream));
    if (way == "driver by address")
      return reinterpret_cast<decltype(&cuMemcpyAsync)>(by_address)(number, from, bytes, Driver(stream));
    void* to = way == "pinned" ? pinned : pageable;
    return cudaMemcpyAsync(to, g_buffer, bytes, cudaMemcpyDeviceToHost, stream);
  };
  for (const std::string way : {"1d", "2d", "peer", "batch", "ptsz", "driver by name", "driver by address", "pinned"}) {
    Close(stream);
    std::atomic<bool> back{false};
    std::thread thread([&] {
      CHECK(cudaSetDevice(0));
      CHECK(copy(way));
      back = true;
    });
    if (way == "pinned") thread.join();
    Say(way.c_str());
    if (!Await()) return 1;
    EXPECT(back.load() == (way == "pinned"));
    g_gate = true;
    if (way != "pinned") thread.join();
  }
  CHECK(cudaStreamSynchronize(stream));
  Say("all is done");
  Await();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  if (std::strcmp(mode, "forks") == 0) return Forks();
  CHECK(cudaSetDevice(0));
  g_buffer = Buffer();
  constexpr struct {
    const char* name;
    int (*run)();
  } kModes[] = {{"groups", Groups},
                {"never_ends", NeverEnds},
                {"never_reaches", NeverReaches},
                {"sticky", Sticky},
                {"contexts", Contexts},
                {"reused", Reused},
                {"many", Many},
                {"timed", Timed},
                {"nonblocking", Nonblocking},
                {"reset", Reset},
                {"shared", Shared},
                {"captures", Captures},
                {"waits", Waits},
                {"captured_late", CapturedLate},
                {"beside", Beside},
                {"copies", Copies}};
  for (const auto& known : kModes) {
    if (std::strcmp(mode, known.name) == 0) return known.run();
  }
  std::fprintf(stderr, "unknown mode %s\n", mode);
  return 2;
}
