// libcuda: stream capture, graphs, and streams that wait for events.
#include <cuda.h>

#include "tests/standin/cuda/capture.h"
#include "tests/standin/cuda/engine.h"

#define STANDIN_CUDA extern "C" STANDIN_EXPORT CUresult

STANDIN_CUDA cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int) {
  const auto stream = standin::FindStream(handle);
  standin::StreamPoint point;
  if (!stream || !standin::EventPoint(event, &point)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (point.stream) {
    if (const int refused = standin::CheckStreamWait(stream, point)) {
      return static_cast<CUresult>(refused);
    }
    standin::Enqueue(stream, {}, {point});
  }
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph, const CUgraphNode*, const void*, size_t,
                                         CUstreamCaptureMode mode) {
  const auto stream = standin::FindStream(handle);
  const auto into = graph ? standin::FindGraph(graph) : nullptr;
  if (!stream || (graph && !into)) {
    return stream ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  }
  return static_cast<CUresult>(standin::BeginCapture(stream, mode, into));
}

STANDIN_CUDA cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return cuStreamBeginCaptureToGraph(stream, nullptr, nullptr, nullptr, 0, mode);
}

STANDIN_CUDA cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  const auto stream = standin::FindStream(handle);
  if (!stream || !graph) {
    return stream ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  }
  *graph = nullptr;
  std::shared_ptr<standin::Graph> made;
  if (const int refused = standin::EndCapture(stream, &made)) {
    return static_cast<CUresult>(refused);
  }
  *graph = static_cast<CUgraph>(standin::KeepGraph(std::move(made)));
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph handle, unsigned long long) {
  const auto graph = standin::FindGraph(handle);
  if (!exec || !graph) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *exec = static_cast<CUgraphExec>(standin::Instantiate(*graph));
  return CUDA_SUCCESS;
}

STANDIN_CUDA cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  const auto stream = standin::FindStream(handle);
  if (!stream) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (const int refused = standin::CheckUse(stream)) {
    return static_cast<CUresult>(refused);
  }
  return static_cast<CUresult>(standin::LaunchExec(exec, stream));
}

STANDIN_CUDA cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  return cuGraphLaunch(exec, stream ? stream : CU_STREAM_PER_THREAD);
}

STANDIN_CUDA cuGraphExecDestroy(CUgraphExec exec) {
  return standin::ForgetExec(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

STANDIN_CUDA cuGraphDestroy(CUgraph graph) {
  return standin::ForgetGraph(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
