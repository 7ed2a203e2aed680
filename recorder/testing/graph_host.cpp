// A program that captures NCCL operations into CUDA graphs and launches them. The graph tests run it with and without
// the recorder and compare what it prints.
//   recorder_graph_host MODE
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "recorder/testing/check.h"

namespace {

constexpr size_t kCount = 64;

struct Rank {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float* data = nullptr;
};

Rank Start(unsigned flags = cudaStreamNonBlocking) {
  Rank rank;
  ncclUniqueId id;
  CHECK(cudaSetDevice(0));
  CHECK(ncclGetUniqueId(&id));
  CHECK(ncclCommInitRank(&rank.comm, 1, id, 0));
  CHECK(cudaStreamCreateWithFlags(&rank.stream, flags));
  CHECK(cudaMalloc(reinterpret_cast<void**>(&rank.data), kCount * sizeof(float)));
  return rank;
}

int AllReduce(const Rank& rank, size_t count = kCount) {
  return ncclAllReduce(rank.data, rank.data, count, ncclFloat, ncclSum, rank.comm, rank.stream);
}

// Issues three equal collectives, a different one, and a group with a send and a receive of the rank itself.
void Issue(const Rank& rank) {
  for (int i = 0; i < 3; ++i) CHECK(AllReduce(rank));
  CHECK(ncclBroadcast(rank.data, rank.data, kCount, ncclFloat, 0, rank.comm, rank.stream));
  CHECK(ncclGroupStart());
  CHECK(ncclSend(rank.data, 8, ncclFloat, 0, rank.comm, rank.stream));
  CHECK(ncclRecv(rank.data, 8, ncclFloat, 0, rank.comm, rank.stream));
  CHECK(ncclGroupEnd());
}

cudaGraph_t Capture(const Rank& rank, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamBeginCapture(rank.stream, mode));
  Issue(rank);
  CHECK(cudaStreamEndCapture(rank.stream, &graph));
  size_t nodes = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  std::printf("%zu nodes\n", nodes);
  return graph;
}

void Finish(const Rank& rank) {
  CHECK(cudaStreamSynchronize(rank.stream));
  CHECK(ncclCommDestroy(rank.comm));
  CHECK(cudaFree(rank.data));
  CHECK(cudaStreamDestroy(rank.stream));
}

// Makes the same calls on two communicators: with graph launches, also inside another graph, and as single calls.
int Beside() {
  const Rank replaying = Start(), plain = Start();
  CHECK(AllReduce(replaying));
  cudaGraph_t inner = Capture(replaying), outer = nullptr;
  cudaGraphExec_t inner_exec = nullptr, outer_exec = nullptr;
  CHECK(cudaGraphInstantiate(&inner_exec, inner));
  CHECK(cudaStreamBeginCapture(replaying.stream, cudaStreamCaptureModeGlobal));
  CHECK(AllReduce(replaying, 9));
  CHECK(cudaGraphLaunch(inner_exec, replaying.stream));
  CHECK(cudaStreamEndCapture(replaying.stream, &outer));
  CHECK(cudaGraphInstantiate(&outer_exec, outer));
  for (int i = 0; i < 3; ++i) {
    CHECK(cudaGraphLaunch(inner_exec, replaying.stream));
    CHECK(AllReduce(replaying, 7));
    CHECK(cudaGraphLaunch(outer_exec, replaying.stream));
  }
  CHECK(AllReduce(plain));
  for (int i = 0; i < 3; ++i) {
    Issue(plain);
    CHECK(AllReduce(plain, 7));
    CHECK(AllReduce(plain, 9));
    Issue(plain);
  }
  CHECK(cudaStreamSynchronize(plain.stream));
  CHECK(cudaStreamSynchronize(replaying.stream));
  return 0;
}

int Replays() {
  const Rank rank = Start();
  CHECK(AllReduce(rank));
  cudaGraph_t graph = Capture(rank);
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph));
  CHECK(cudaGraphDestroy(graph));
  for (int i = 0; i < 5; ++i) {
    CHECK(cudaGraphLaunch(exec, rank.stream));
    CHECK(AllReduce(rank, 7));
  }
  Finish(rank);
  return 0;
}

// Launches a graph also as a clone, an update, a child graph and from a capture. All of these keep the captured
// operations. A failed launch does not count.
int Kin() {
  const Rank rank = Start();
  cudaGraph_t graph = Capture(rank), clone = nullptr, outer = nullptr, again = nullptr, second = nullptr;
  cudaGraphExec_t first_exec = nullptr, clone_exec = nullptr, outer_exec = nullptr, again_exec = nullptr,
                  params_exec = nullptr;
  CHECK(cudaGraphInstantiateWithFlags(&first_exec, graph, 0));
  CHECK(cudaGraphClone(&clone, graph));
  CHECK(cudaGraphInstantiate(&clone_exec, clone));
  CHECK(cudaGraphLaunch(first_exec, rank.stream));
  CHECK(cudaGraphLaunch(clone_exec, rank.stream));
  cudaGraphInstantiateParams params{};
  CHECK(cudaGraphInstantiateWithParams(&params_exec, clone, &params));
  CHECK(cudaGraphLaunch(params_exec, rank.stream));
  // Captures the same operations again, into the existing executable graph.
  second = Capture(rank);
  cudaGraphExecUpdateResultInfo info{};
  CHECK(cudaGraphExecUpdate(first_exec, second, &info));
  CHECK(cudaGraphLaunch(first_exec, rank.stream));
  // Uses the graph as a child of another graph.
  cudaGraphNode_t node = nullptr;
  CHECK(cudaGraphCreate(&outer, 0));
  CHECK(cudaGraphAddChildGraphNode(&node, outer, nullptr, 0, graph));
  CHECK(cudaGraphInstantiate(&outer_exec, outer));
  CHECK(cudaGraphLaunch(outer_exec, rank.stream));
  // Launches while capturing.
  CHECK(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeRelaxed));
  CHECK(AllReduce(rank));
  CHECK(cudaGraphLaunch(clone_exec, rank.stream));
  CHECK(cudaStreamEndCapture(rank.stream, &again));
  CHECK(cudaGraphInstantiate(&again_exec, again));
  CHECK(cudaGraphLaunch(again_exec, rank.stream));
  CHECK(cudaStreamSynchronize(rank.stream));
  for (cudaGraphExec_t exec : {first_exec, clone_exec, params_exec, outer_exec}) CHECK(cudaGraphExecDestroy(exec));
  for (cudaGraph_t each : {graph, clone, second, outer, again}) CHECK(cudaGraphDestroy(each));
  std::printf("destroyed: %d\n", cudaGraphLaunch(first_exec, rank.stream));
  cudaStream_t gone = nullptr;
  CHECK(cudaStreamCreate(&gone));
  CHECK(cudaStreamDestroy(gone));
  std::printf("no stream: %d\n", cudaGraphLaunch(again_exec, gone));
  CHECK(cudaGraphLaunch(again_exec, rank.stream));
  Finish(rank);
  return 0;
}

// The first use of a stream is in a capture of each mode, while another thread makes NCCL calls on another stream.
int Modes() {
  for (const auto mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    for (const unsigned flags : {cudaStreamNonBlocking, cudaStreamDefault}) {
      const Rank rank = Start(flags), other = Start();
      CHECK(cudaStreamBeginCapture(rank.stream, mode));
      std::thread([&] {
        CHECK(cudaSetDevice(0));
        CHECK(AllReduce(other));
      }).join();
      Issue(rank);
      cudaEvent_t event = nullptr;
      CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
      CHECK(cudaEventRecord(event, rank.stream));
      cudaStream_t side = nullptr;
      CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
      CHECK(cudaStreamWaitEvent(side, event));
      CHECK(ncclAllReduce(rank.data, rank.data, 5, ncclFloat, ncclMax, rank.comm, side));
      CHECK(cudaEventRecord(event, side));
      CHECK(cudaStreamWaitEvent(rank.stream, event));
      cudaGraph_t graph = nullptr;
      const int ended = cudaStreamEndCapture(rank.stream, &graph);
      size_t nodes = 0;
      if (ended == 0) CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
      std::printf("mode %d flags %u: %d, %zu nodes\n", static_cast<int>(mode), flags, ended, nodes);
      cudaGraphExec_t exec = nullptr;
      CHECK(cudaGraphInstantiate(&exec, graph));
      for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, rank.stream));
      CHECK(cudaStreamSynchronize(rank.stream));
      CHECK(cudaStreamSynchronize(other.stream));
    }
  }
  // A capture that the program itself invalidates stays invalid, with CUDA's own errors. The next capture works.
  const Rank rank = Start();
  CHECK(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeGlobal));
  CHECK(AllReduce(rank));
  void* memory = nullptr;
  std::printf("malloc: %d\n", cudaMalloc(&memory, 8));
  cudaGraph_t graph = nullptr;
  std::printf("spoilt: %d\n", cudaStreamEndCapture(rank.stream, &graph));
  cudaGetLastError();
  Capture(rank);
  CHECK(AllReduce(rank));
  CHECK(cudaStreamSynchronize(rank.stream));
  return 0;
}

std::atomic<bool> waiting{false};

void BlockForEver(void*) {
  while (true) pause();
}

// Two launches end, the third does not reach its operations, and a fourth waits behind it. Then the process is killed.
int Stuck() {
  const Rank rank = Start();
  cudaGraph_t graph = Capture(rank);
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph));
  for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(exec, rank.stream));
  CHECK(cudaStreamSynchronize(rank.stream));
  CHECK(cudaLaunchHostFunc(rank.stream, BlockForEver, nullptr));
  for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(exec, rank.stream));
  kill(getpid(), SIGKILL);
  return 0;
}

// Uses only the driver, found by dlsym and cuGetProcAddress, as a statically linked CUDA runtime does.
int StaticRuntime() {
  const Rank rank = Start();
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  using Find = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  const auto find = reinterpret_cast<Find>(dlsym(library, "cuGetProcAddress_v2"));
  auto at = [&](const char* name, cuuint64_t flags) {
    void* function = nullptr;
    CUdriverProcAddressQueryResult status;
    CHECK(find(name, &function, 13000, flags, &status));
    return function;
  };
#define DRIVER(NAME) reinterpret_cast<decltype(&NAME)>(at(#NAME, 0))
#undef cuStreamBeginCapture
  const auto begin = reinterpret_cast<decltype(&cuStreamBeginCapture_v2)>(at("cuStreamBeginCapture", 0));
  const auto synchronize = reinterpret_cast<decltype(&cuStreamSynchronize)>(dlsym(library, "cuStreamSynchronize"));
  CHECK(AllReduce(rank));
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CHECK(begin(rank.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  Issue(rank);
  CHECK(DRIVER(cuStreamEndCapture)(rank.stream, &graph));
  CHECK(DRIVER(cuGraphInstantiateWithFlags)(&exec, graph, 0));
  CHECK(DRIVER(cuGraphDestroy)(graph));
  for (int i = 0; i < 5; ++i) CHECK(DRIVER(cuGraphLaunch)(exec, rank.stream));
  // Another stream must wait for the graph's stream.
  CUevent event = nullptr;
  CUstream other = nullptr;
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CHECK(DRIVER(cuEventCreate)(&event, 2));
  CHECK(DRIVER(cuEventRecord)(event, rank.stream));
  CHECK(DRIVER(cuStreamWaitEvent)(other, event, 0));
  CHECK(ncclAllReduce(rank.data, rank.data, 5, ncclFloat, ncclMax, rank.comm, other));
  CHECK(synchronize(other));
  CHECK(cudaLaunchHostFunc(rank.stream, BlockForEver, nullptr));
  std::thread([] {
    while (!waiting.load()) usleep(1000);
    usleep(100000);
    kill(getpid(), SIGKILL);
  }).detach();
  waiting = true;
  return synchronize(rank.stream);
}

// Uses more graphs, with more operations, than fit into a small file. Handles are reused.
int Many() {
  const Rank rank = Start();
  for (int round = 0; round < 80; ++round) {
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 20; ++i) CHECK(AllReduce(rank, static_cast<size_t>(1 + i % 7)));
    CHECK(cudaStreamEndCapture(rank.stream, &graph));
    cudaGraphExec_t exec = nullptr;
    CHECK(cudaGraphInstantiate(&exec, graph));
    CHECK(cudaGraphDestroy(graph));
    for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(exec, rank.stream));
    CHECK(cudaStreamSynchronize(rank.stream));
    CHECK(cudaGraphExecDestroy(exec));
  }
  Finish(rank);
  return 0;
}

// A thread without its own ring captures a graph: other threads have taken all rings of a small file.
int SharedRing() {
  const Rank rank = Start();
  std::atomic<int> ready{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 4; ++i) {
    others.emplace_back([&] {
      CHECK(cudaSetDevice(0));
      CHECK(AllReduce(rank));
      ++ready;
      while (!over.load()) usleep(1000);
    });
    while (ready.load() == i) usleep(1000);
  }
  std::thread([&] {
    CHECK(cudaSetDevice(0));
    Capture(rank);
  }).join();
  over = true;
  for (std::thread& other : others) other.join();
  Finish(rank);
  return 0;
}

}  // namespace

int main(int, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string mode = argv[1] != nullptr ? argv[1] : "";
  int status = 2;
  if (mode == "replays") status = Replays();
  if (mode == "beside") status = Beside();
  if (mode == "kin") status = Kin();
  if (mode == "modes") status = Modes();
  if (mode == "stuck") status = Stuck();
  if (mode == "static") status = StaticRuntime();
  if (mode == "shared") status = SharedRing();
  if (mode == "many") status = Many();
  std::printf("done %d\n", status);
  return status;
}
