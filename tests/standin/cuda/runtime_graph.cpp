// libcudart: stream capture and graphs.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "tests/standin/cuda/capture.h"
#include "tests/standin/cuda/runtime.h"

using standin::Error;
using standin::Report;

namespace {

cudaError_t Instantiate(cudaGraphExec_t* exec, cudaGraph_t graph) {
  return Error(DRIVER(cuGraphInstantiateWithFlags)(exec, graph, 0));
}

}  // namespace

STANDIN_CUDART cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                                        cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                        const cudaGraphEdgeData**, size_t* count) {
  const auto stream = standin::FindStream(handle);
  if (!status || !stream) {
    return Report(stream ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
  }
  int number = 0;
  uint64_t capture = 0;
  if (const int refused = standin::CaptureStatus(stream, &number, &capture)) {
    return Error(refused);
  }
  *status = static_cast<cudaStreamCaptureStatus>(number);
  if (number == cudaStreamCaptureStatusActive) {
    if (id) *id = capture;
    if (graph) *graph = nullptr;
    if (dependencies) *dependencies = nullptr;
    if (count) *count = 0;
  }
  return cudaSuccess;
}

STANDIN_CUDART cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(handle, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

// Programs built with CUDA 12 use this name.
STANDIN_CUDART cudaStreamGetCaptureInfo_v2(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                                           cudaGraph_t* graph, const cudaGraphNode_t** dependencies, size_t* count) {
  return cudaStreamGetCaptureInfo(handle, status, id, graph, dependencies, nullptr, count);
}

STANDIN_CUDART cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (!mode || *mode > cudaStreamCaptureModeRelaxed) {
    return Report(cudaErrorInvalidValue);
  }
  *mode = static_cast<cudaStreamCaptureMode>(standin::ExchangeMode(*mode));
  return cudaSuccess;
}

STANDIN_CUDART cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* after,
                                             const cudaGraphEdgeData* edges, size_t count, cudaStreamCaptureMode mode) {
  return Error(
      DRIVER(cuStreamBeginCaptureToGraph)(stream, graph, after, edges, count, static_cast<CUstreamCaptureMode>(mode)));
}

STANDIN_CUDART cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return cudaStreamBeginCaptureToGraph(handle, nullptr, nullptr, nullptr, 0, mode);
}

STANDIN_CUDART cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return Error(DRIVER(cuStreamEndCapture)(stream, graph));
}

STANDIN_CUDART cudaGraphCreate(cudaGraph_t* graph, unsigned int flags) {
  if (!graph || flags != 0) {
    return Report(cudaErrorInvalidValue);
  }
  *graph = static_cast<cudaGraph_t>(standin::KeepGraph(std::make_shared<standin::Graph>()));
  return cudaSuccess;
}

STANDIN_CUDART cudaGraphDestroy(cudaGraph_t graph) { return Error(DRIVER(cuGraphDestroy)(graph)); }

STANDIN_CUDART cudaGraphClone(cudaGraph_t* clone, cudaGraph_t original) {
  const auto graph = standin::FindGraph(original);
  if (!clone || !graph) {
    return Report(cudaErrorInvalidValue);
  }
  *clone = static_cast<cudaGraph_t>(standin::KeepGraph(std::make_shared<standin::Graph>(*graph)));
  return cudaSuccess;
}

STANDIN_CUDART cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, size_t* count) {
  const auto graph = standin::FindGraph(handle);
  if (!count || !graph || nodes) {  // the stand-in can return only the count
    return Report(cudaErrorInvalidValue);
  }
  *count = graph->nodes.size();
  return cudaSuccess;
}

// Ignores the named dependencies: the child follows everything that was added to the graph before.
STANDIN_CUDART cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t handle, const cudaGraphNode_t*, size_t,
                                          cudaGraph_t child_handle) {
  const auto graph = standin::FindGraph(handle);
  const auto child = standin::FindGraph(child_handle);
  if (!node || !graph || !child) {
    return Report(cudaErrorInvalidValue);
  }
  standin::AddChild(*child, graph.get());
  *node = nullptr;
  return cudaSuccess;
}

STANDIN_CUDART cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return Instantiate(exec, graph);
}

STANDIN_CUDART cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return Instantiate(exec, graph);
}

STANDIN_CUDART cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                              cudaGraphInstantiateParams* params) {
  if (!params) {
    return Report(cudaErrorInvalidValue);
  }
  const cudaError_t result = Instantiate(exec, graph);
  params->errNode_out = nullptr;
  params->result_out = result == cudaSuccess ? cudaGraphInstantiateSuccess : cudaGraphInstantiateError;
  return result;
}

STANDIN_CUDART cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t handle, cudaGraphExecUpdateResultInfo* info) {
  const auto graph = standin::FindGraph(handle);
  if (!graph || !info || !standin::KnownExec(exec)) {
    return Report(cudaErrorInvalidValue);
  }
  *info = {cudaGraphExecUpdateSuccess, nullptr, nullptr};
  if (!standin::UpdateExec(exec, *graph)) {
    info->result = cudaGraphExecUpdateErrorTopologyChanged;
    return Report(cudaErrorGraphExecUpdateFailure);
  }
  return cudaSuccess;
}

STANDIN_CUDART cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return Report(standin::KnownExec(exec) && standin::FindStream(stream) ? cudaSuccess : cudaErrorInvalidValue);
}

STANDIN_CUDART cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return Error(DRIVER(cuGraphLaunch)(exec, stream));
}

// Programs built for per-thread default streams use this name.
STANDIN_CUDART cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
  return cudaGraphLaunch(exec, stream ? stream : cudaStreamPerThread);
}

STANDIN_CUDART cudaGraphExecDestroy(cudaGraphExec_t exec) { return Error(DRIVER(cuGraphExecDestroy)(exec)); }
