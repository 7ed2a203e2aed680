// Wrappers of the CUDA runtime functions for stream capture and graphs. If CUDA versions give a function different
// parameters, the longer list is passed on. A library with the shorter list does not read the parameters that its
// caller did not set.
#include "recorder/calls/cuda.h"

using namespace lockstep::recorder;

#define LOCKSTEP_CAPTURE(PTSZ, STREAM)                                                                       \
  LOCKSTEP_EXPORT int cudaStreamBeginCapture##PTSZ(CudaStream stream, int mode) {                            \
    LOCKSTEP_RUNTIME(cudaStreamBeginCapture##PTSZ, (stream, mode));                                          \
    return SeeCaptureBegin(STREAM, [&] { return real(stream, mode); });                                      \
  }                                                                                                          \
  LOCKSTEP_EXPORT int cudaStreamBeginCaptureToGraph##PTSZ(CudaStream stream, void* graph, const void* after, \
                                                          const void* edges, size_t count, int mode) {       \
    LOCKSTEP_RUNTIME(cudaStreamBeginCaptureToGraph##PTSZ, (stream, graph, after, edges, count, mode));       \
    return SeeCaptureBegin(STREAM, [&] { return real(stream, graph, after, edges, count, mode); });          \
  }                                                                                                          \
  LOCKSTEP_EXPORT int cudaStreamEndCapture##PTSZ(CudaStream stream, void** graph) {                          \
    LOCKSTEP_RUNTIME(cudaStreamEndCapture##PTSZ, (stream, graph));                                           \
    return SeeCaptureEnd(STREAM, graph, [&] { return real(stream, graph); });                                \
  }                                                                                                          \
  LOCKSTEP_EXPORT int cudaGraphInstantiateWithParams##PTSZ(void** exec, void* graph, void* parameters) {     \
    LOCKSTEP_RUNTIME(cudaGraphInstantiateWithParams##PTSZ, (exec, graph, parameters));                       \
    return SeeInstantiate(exec, graph, [&] { return real(exec, graph, parameters); });                       \
  }                                                                                                          \
  LOCKSTEP_EXPORT int cudaGraphLaunch##PTSZ(void* exec, CudaStream stream) {                                 \
    LOCKSTEP_RUNTIME(cudaGraphLaunch##PTSZ, (exec, stream));                                                 \
    return SeeLaunch(exec, STREAM, [&] { return real(exec, stream); });                                      \
  }
LOCKSTEP_CAPTURE(, stream)
LOCKSTEP_CAPTURE(_ptsz, OwnDefault(stream))

// CUDA 11: (exec, graph, error node, log, its size). Since 12: (exec, graph, flags).
LOCKSTEP_EXPORT int cudaGraphInstantiate(void** exec, void* graph, uint64_t third, void* fourth, size_t fifth) {
  LOCKSTEP_RUNTIME(cudaGraphInstantiate, (exec, graph, third, fourth, fifth));
  return SeeInstantiate(exec, graph, [&] { return real(exec, graph, third, fourth, fifth); });
}
LOCKSTEP_EXPORT int cudaGraphInstantiateWithFlags(void** exec, void* graph, uint64_t flags) {
  LOCKSTEP_RUNTIME(cudaGraphInstantiateWithFlags, (exec, graph, flags));
  return SeeInstantiate(exec, graph, [&] { return real(exec, graph, flags); });
}
// CUDA 11: (exec, graph, error node, result). Since 12: (exec, graph, result info).
LOCKSTEP_EXPORT int cudaGraphExecUpdate(void* exec, void* graph, void* third, void* fourth) {
  LOCKSTEP_RUNTIME(cudaGraphExecUpdate, (exec, graph, third, fourth));
  return SeeExecUpdate(exec, graph, [&] { return real(exec, graph, third, fourth); });
}
LOCKSTEP_EXPORT int cudaGraphClone(void** clone, void* graph) {
  LOCKSTEP_RUNTIME(cudaGraphClone, (clone, graph));
  return SeeClone(clone, graph, [&] { return real(clone, graph); });
}
LOCKSTEP_EXPORT int cudaGraphAddChildGraphNode(void** node, void* graph, const void* after, size_t count, void* child) {
  LOCKSTEP_RUNTIME(cudaGraphAddChildGraphNode, (node, graph, after, count, child));
  return SeeAddChild(graph, child, [&] { return real(node, graph, after, count, child); });
}
LOCKSTEP_EXPORT int cudaGraphExecDestroy(void* exec) {
  LOCKSTEP_RUNTIME(cudaGraphExecDestroy, (exec));
  return SeeGraphDestroy(exec, [&] { return real(exec); });
}
LOCKSTEP_EXPORT int cudaGraphDestroy(void* graph) {
  LOCKSTEP_RUNTIME(cudaGraphDestroy, (graph));
  return SeeGraphDestroy(graph, [&] { return real(graph); });
}
