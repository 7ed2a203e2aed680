// Tests stream capture and graphs: what a capture forbids, and what a launch does.
#include <cuda.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/standin/ranks.h"

namespace standin_test {
namespace {

cudaStream_t NewStream() {
  cudaStream_t stream;
  RANK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

cudaEvent_t NewEvent() {
  cudaEvent_t event;
  RANK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

TEST(Capture, RunsNothingBeforeALaunch) {
  InOwnProcess([] {
    cudaStream_t stream = NewStream(), side = NewStream();
    cudaEvent_t fork = NewEvent(), join = NewEvent();
    int* data = ToDevice(std::vector<int>(2, 0));
    RANK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    RANK_CUDA(cudaMemsetAsync(data, 1, sizeof(int), stream));
    RANK_CUDA(cudaEventRecord(fork, stream));
    RANK_CUDA(cudaStreamWaitEvent(side, fork));
    cudaStreamCaptureStatus status;
    unsigned long long id = 0, other = 1;
    RANK_CUDA(cudaStreamGetCaptureInfo(stream, &status, &id));
    RANK_CHECK(status == cudaStreamCaptureStatusActive);
    RANK_CUDA(cudaStreamGetCaptureInfo(side, &status, &other));
    RANK_CHECK(status == cudaStreamCaptureStatusActive && id == other);
    RANK_CUDA(cudaMemcpyAsync(data + 1, data, sizeof(int), cudaMemcpyDeviceToDevice, side));
    RANK_CUDA(cudaEventRecord(join, side));
    RANK_CUDA(cudaStreamWaitEvent(stream, join));
    cudaGraph_t graph;
    RANK_CUDA(cudaStreamEndCapture(stream, &graph));
    RANK_CUDA(cudaStreamIsCapturing(side, &status));
    RANK_CHECK(status == cudaStreamCaptureStatusNone);
    RANK_CHECK(data[0] == 0 && data[1] == 0);
    cudaGraphExec_t exec;
    RANK_CUDA(cudaGraphInstantiate(&exec, graph));
    RANK_CUDA(cudaGraphDestroy(graph));
    for (int i = 0; i < 3; ++i) {
      data[0] = data[1] = 0;
      RANK_CUDA(cudaGraphLaunch(exec, stream));
      RANK_CUDA(cudaStreamSynchronize(stream));
      RANK_CHECK(data[0] == 0x01010101 && data[1] == 0x01010101);
    }
    RANK_CUDA(cudaGraphExecDestroy(exec));
    RANK_CHECK(cudaGraphLaunch(exec, stream) == cudaErrorInvalidResourceHandle);
  });
}

// Checks what `forbidden` returns in a capture of `mode`, and what ending that capture then returns.
template <class F>
void Forbidden(cudaStreamCaptureMode mode, int flags, F forbidden, cudaError_t result, cudaError_t end) {
  InOwnProcess([&] {
    cudaStream_t stream;
    RANK_CUDA(cudaStreamCreateWithFlags(&stream, static_cast<unsigned>(flags)));
    RANK_CUDA(cudaStreamBeginCapture(stream, mode));
    RANK_CHECK(forbidden(stream) == result);
    cudaGraph_t graph = nullptr;
    RANK_CHECK(cudaStreamEndCapture(stream, &graph) == end);
    RANK_CHECK((graph == nullptr) == (end != cudaSuccess));
  });
}

cudaError_t Allocate(cudaStream_t) {
  void* memory = nullptr;
  return cudaMalloc(&memory, 16);
}
cudaError_t AllocateElsewhere(cudaStream_t stream) {
  cudaError_t result = cudaSuccess;
  std::thread([&] { result = Allocate(stream); }).join();
  return result;
}

TEST(Capture, IsInvalidatedByForbiddenCalls) {
  const auto global = cudaStreamCaptureModeGlobal, local = cudaStreamCaptureModeThreadLocal,
             relaxed = cudaStreamCaptureModeRelaxed;
  const auto unsupported = cudaErrorStreamCaptureUnsupported, spoilt = cudaErrorStreamCaptureInvalidated;
  Forbidden(global, 1, Allocate, unsupported, spoilt);
  Forbidden(local, 1, Allocate, unsupported, spoilt);
  Forbidden(relaxed, 1, Allocate, cudaSuccess, cudaSuccess);
  Forbidden(global, 1, AllocateElsewhere, unsupported, spoilt);
  Forbidden(local, 1, AllocateElsewhere, cudaSuccess, cudaSuccess);
  Forbidden(relaxed, 1, cudaStreamSynchronize, unsupported, spoilt);
  Forbidden(relaxed, 1, cudaStreamQuery, unsupported, spoilt);
  Forbidden(
      global, 1, [](cudaStream_t) { return cudaDeviceSynchronize(); }, unsupported, spoilt);
  const auto legacy = [](cudaStream_t) { return cudaMemsetAsync(reinterpret_cast<void*>(1), 0, 1, nullptr); };
  Forbidden(relaxed, 0, legacy, cudaErrorStreamCaptureImplicit, spoilt);
  const auto query = [](cudaStream_t stream) {
    cudaEvent_t event = NewEvent();
    RANK_CUDA(cudaEventRecord(event, stream));
    return cudaEventQuery(event);
  };
  Forbidden(relaxed, 1, query, cudaErrorCapturedEvent, spoilt);
  const auto write = [](cudaStream_t stream) {
    static uint64_t word;
    RANK_CHECK(cuMemHostRegister_v2(&word, sizeof word, 0) == CUDA_SUCCESS);
    return static_cast<cudaError_t>(cuStreamWriteValue64(stream, reinterpret_cast<uintptr_t>(&word), 1, 0));
  };
  Forbidden(relaxed, 1, write, unsupported, spoilt);
  const auto number = [](cudaStream_t stream) {
    unsigned long long id = 0;
    return static_cast<cudaError_t>(cuStreamGetId(stream, &id));
  };
  Forbidden(global, 1, number, unsupported, spoilt);
  Forbidden(relaxed, 1, number, unsupported, spoilt);
  // Queries are allowed, except on the legacy stream while a blocking stream captures.
  const auto ask = [](cudaStream_t) {
    cudaStreamCaptureStatus status;
    return cudaStreamIsCapturing(nullptr, &status);
  };
  Forbidden(global, 1, ask, cudaSuccess, cudaSuccess);
  Forbidden(global, 0, ask, cudaErrorStreamCaptureImplicit, cudaSuccess);
}

TEST(Capture, EndsOnlyOnItsOwnThreadAndAfterAllStreamsReturn) {
  InOwnProcess([] {
    cudaStream_t stream = NewStream(), side = NewStream();
    cudaEvent_t event = NewEvent();
    int* data = ToDevice(std::vector<int>(1, 0));
    cudaGraph_t graph;
    RANK_CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal) == cudaErrorStreamCaptureUnsupported);
    RANK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    RANK_CUDA(cudaEventRecord(event, stream));
    RANK_CUDA(cudaStreamWaitEvent(side, event));
    RANK_CUDA(cudaMemsetAsync(data, 1, sizeof(int), side));
    RANK_CHECK(cudaStreamEndCapture(side, &graph) == cudaErrorStreamCaptureUnmatched);
    cudaError_t elsewhere = cudaSuccess;
    std::thread([&] { elsewhere = cudaStreamEndCapture(stream, &graph); }).join();
    RANK_CHECK(elsewhere == cudaErrorStreamCaptureWrongThread);
    RANK_CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureUnjoined);
    RANK_CUDA(cudaMemsetAsync(data, 2, sizeof(int), side));  // the stream is free again
    RANK_CUDA(cudaStreamSynchronize(side));
    RANK_CHECK(*data == 0x02020202);
  });
}

TEST(Graphs, RunAChildAfterEverythingAddedBefore) {
  InOwnProcess([] {
    cudaStream_t stream = NewStream();
    static std::atomic<int> slow, seen;
    const auto capture = [stream](cudaGraph_t graph, cudaHostFn_t function) {
      RANK_CUDA(cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
      RANK_CUDA(cudaLaunchHostFunc(stream, function, nullptr));
      RANK_CUDA(cudaStreamEndCapture(stream, &graph));
    };
    cudaGraph_t graph, child;
    RANK_CUDA(cudaGraphCreate(&graph, 0));
    RANK_CUDA(cudaGraphCreate(&child, 0));
    capture(graph, [](void*) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      slow = 1;
    });
    capture(graph, [](void*) {});
    capture(child, [](void*) { seen = slow.load(); });
    cudaGraphNode_t node;
    RANK_CUDA(cudaGraphAddChildGraphNode(&node, graph, nullptr, 0, child));
    cudaGraphExec_t exec;
    RANK_CUDA(cudaGraphInstantiate(&exec, graph));
    RANK_CUDA(cudaGraphLaunch(exec, stream));
    RANK_CUDA(cudaStreamSynchronize(stream));
    RANK_CHECK(seen == 1);
  });
}

// Replays alternate with other operations of the communicator. The results follow the order of the calls.
TEST(Graphs, RunCollectivesAgainAtEachLaunch) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  EXPECT_EQ(RunRanks(2,
                     [&](int rank) {
                       ncclComm_t comm;
                       RANK_CUDA(cudaSetDevice(rank));
                       RANK_NCCL(ncclCommInitRank(&comm, 2, id, rank));
                       cudaStream_t stream = NewStream();
                       float* data = ToDevice(std::vector<float>(64, 1.0f));
                       RANK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
                       RANK_NCCL(ncclAllReduce(data, data, 64, ncclFloat32, ncclSum, comm, stream));
                       RANK_NCCL(ncclGroupStart());
                       RANK_NCCL(ncclSend(data, 32, ncclFloat32, 1 - rank, comm, stream));
                       RANK_NCCL(ncclRecv(data + 32, 32, ncclFloat32, 1 - rank, comm, stream));
                       RANK_NCCL(ncclGroupEnd());
                       cudaGraph_t graph;
                       RANK_CUDA(cudaStreamEndCapture(stream, &graph));
                       cudaGraphExec_t exec;
                       RANK_CUDA(cudaGraphInstantiate(&exec, graph));
                       float expected = 1;
                       for (int i = 0; i < 4; ++i) {
                         RANK_CUDA(cudaGraphLaunch(exec, stream));
                         RANK_NCCL(ncclAllReduce(data, data, 64, ncclFloat32, ncclSum, comm, stream));
                         expected *= 4;
                       }
                       RANK_CUDA(cudaStreamSynchronize(stream));
                       RANK_CHECK(data[0] == expected && data[63] == expected);
                       RANK_CUDA(cudaGraphExecDestroy(exec));
                       RANK_NCCL(ncclCommDestroy(comm));
                     }),
            AllWell(2));
}

}  // namespace
}  // namespace standin_test
