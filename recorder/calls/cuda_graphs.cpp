// Wrappers of the CUDA runtime functions for stream capture and graphs. If CUDA versions give a function different
// parameters, the longer list is passed on. A library with the shorter list does not read the parameters that its
// caller did not set.
#include "recorder/calls/cuda.h"

using namespace lockstep::recorder;

LOCKSTEP_CUDA_STREAM(cudaStreamBeginCapture, (CudaStream stream, int mode), (stream, mode),
                     SeeCaptureBegin(on, forward))
LOCKSTEP_CUDA_STREAM(cudaStreamBeginCaptureToGraph,
                     (CudaStream stream, void* graph, const void* after, const void* edges, size_t count, int mode),
                     (stream, graph, after, edges, count, mode), SeeCaptureBegin(on, forward))
LOCKSTEP_CUDA_STREAM(cudaStreamEndCapture, (CudaStream stream, void** graph), (stream, graph),
                     SeeCaptureEnd(on, graph, forward))
LOCKSTEP_CUDA_STREAM(cudaGraphLaunch, (void* exec, CudaStream stream), (exec, stream), SeeLaunch(exec, on, forward))

// CUDA 11: (exec, graph, error node, log, its size). Since 12: (exec, graph, flags).
LOCKSTEP_CUDA(cudaGraphInstantiate, (void** exec, void* graph, uint64_t third, void* fourth, size_t fifth),
              (exec, graph, third, fourth, fifth), SeeInstantiate(exec, graph, forward))
LOCKSTEP_CUDA(cudaGraphInstantiateWithFlags, (void** exec, void* graph, uint64_t flags), (exec, graph, flags),
              SeeInstantiate(exec, graph, forward))
LOCKSTEP_CUDA(cudaGraphInstantiateWithParams, (void** exec, void* graph, void* parameters), (exec, graph, parameters),
              SeeInstantiate(exec, graph, forward))
LOCKSTEP_CUDA(cudaGraphInstantiateWithParams_ptsz, (void** exec, void* graph, void* parameters),
              (exec, graph, parameters), SeeInstantiate(exec, graph, forward))
// CUDA 11: (exec, graph, error node, result). Since 12: (exec, graph, result info).
LOCKSTEP_CUDA(cudaGraphExecUpdate, (void* exec, void* graph, void* third, void* fourth), (exec, graph, third, fourth),
              SeeExecUpdate(exec, graph, forward))
LOCKSTEP_CUDA(cudaGraphClone, (void** clone, void* graph), (clone, graph), SeeClone(clone, graph, forward))
LOCKSTEP_CUDA(cudaGraphAddChildGraphNode, (void** node, void* graph, const void* after, size_t count, void* child),
              (node, graph, after, count, child), SeeAddChild(graph, child, forward))
LOCKSTEP_CUDA(cudaGraphExecDestroy, (void* exec), (exec), SeeGraphDestroy(exec, forward))
LOCKSTEP_CUDA(cudaGraphDestroy, (void* graph), (graph), SeeGraphDestroy(graph, forward))
