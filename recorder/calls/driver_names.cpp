// Wrappers of the driver functions that a CUDA runtime looks up with dlsym and cuGetProcAddress. The runtime does so
// if it is linked statically (in NCCL or in a framework) or opened with dlopen. Only the dlsym hook returns these
// wrappers; none is exported.
#include "recorder/abi/nccl.h"
#include "recorder/calls/cuda_calls.h"
#include "recorder/calls/hook.h"

namespace lockstep::recorder {
namespace {

using ring::CallKind;

// A function may have two addresses, one for each way to look it up, and each has its own wrapper. If both the first
// and the second version of a function are in use, they count as two ways.
enum Way { kByName = 0, kByAddress = 1, kSecondByName = 2 };

// NAME<way>::Call forwards to NAME<way>::real, surrounded by SEE if the call is recorded.
#define LOCKSTEP_DRIVER(NAME, PARAMETERS, ARGUMENTS, SEE)                              \
  template <Way kWay>                                                                  \
  struct NAME {                                                                        \
    static void* real;                                                                 \
    static int Call PARAMETERS {                                                       \
      const auto forward_to = reinterpret_cast<int(*) PARAMETERS>(LoadAcquire(&real)); \
      const auto forward = [&] { return forward_to ARGUMENTS; };                       \
      if (!DriverIsWatched(__builtin_return_address(0))) return forward();             \
      return SEE;                                                                      \
    }                                                                                  \
  };                                                                                   \
  template <Way kWay>                                                                  \
  void* NAME<kWay>::real;

LOCKSTEP_DRIVER(cuStreamSynchronize, (void* stream), (stream), SeeStreamSynchronize(stream, forward))
LOCKSTEP_DRIVER(cuStreamSynchronize_ptsz, (void* stream), (stream), SeeStreamSynchronize(OwnDefault(stream), forward))
LOCKSTEP_DRIVER(cuEventSynchronize, (void* event), (event), SeeEventSynchronize(event, forward))
LOCKSTEP_DRIVER(cuCtxSynchronize, (void* context), (context), SeeWait(CallKind::kDeviceSynchronize, forward))

LOCKSTEP_DRIVER(cuEventRecord, (void* event, void* stream), (event, stream), SeeEventRecord(event, stream, forward))
LOCKSTEP_DRIVER(cuEventRecord_ptsz, (void* event, void* stream), (event, stream),
                SeeEventRecord(event, OwnDefault(stream), forward))
LOCKSTEP_DRIVER(cuEventRecordWithFlags, (void* event, void* stream, unsigned flags), (event, stream, flags),
                SeeEventRecord(event, stream, forward))
LOCKSTEP_DRIVER(cuEventRecordWithFlags_ptsz, (void* event, void* stream, unsigned flags), (event, stream, flags),
                SeeEventRecord(event, OwnDefault(stream), forward))
LOCKSTEP_DRIVER(cuStreamWaitEvent, (void* stream, void* event, unsigned flags), (stream, event, flags),
                SeeStreamWait(stream, event, forward))
LOCKSTEP_DRIVER(cuStreamWaitEvent_ptsz, (void* stream, void* event, unsigned flags), (stream, event, flags),
                SeeStreamWait(OwnDefault(stream), event, forward))

LOCKSTEP_DRIVER(cuStreamCreate, (void** stream, unsigned flags), (stream, flags), SeeStreamCreate(stream, forward))
LOCKSTEP_DRIVER(cuStreamCreateWithPriority, (void** stream, unsigned flags, int priority), (stream, flags, priority),
                SeeStreamCreate(stream, forward))
LOCKSTEP_DRIVER(cuStreamDestroy, (void* stream), (stream), SeeStreamDestroy(stream, forward))
LOCKSTEP_DRIVER(cuEventCreate, (void** event, unsigned flags), (event, flags), SeeEventCreate(event, forward))
LOCKSTEP_DRIVER(cuEventDestroy, (void* event), (event), SeeEventDestroy(event, forward))

// Driver addresses and sizes are both passed as integers. If a version uses smaller ones, its library does not read
// the bits that its caller did not set.
using Word = uint64_t;
#define LOCKSTEP_DRIVER_WAIT(NAME, KIND, PARAMETERS, ARGUMENTS) \
  LOCKSTEP_DRIVER(NAME, PARAMETERS, ARGUMENTS, SeeWait(CallKind::KIND, forward))
#define LOCKSTEP_DRIVER_COPY(NAME, PARAMETERS, ARGUMENTS)    \
  LOCKSTEP_DRIVER_WAIT(NAME, kMemcpy, PARAMETERS, ARGUMENTS) \
  LOCKSTEP_DRIVER_WAIT(NAME##_ptds, kMemcpy, PARAMETERS, ARGUMENTS)
LOCKSTEP_DRIVER_COPY(cuMemcpy, (Word to, Word from, Word bytes), (to, from, bytes))
LOCKSTEP_DRIVER_COPY(cuMemcpyHtoD, (Word to, Word from, Word bytes), (to, from, bytes))
LOCKSTEP_DRIVER_COPY(cuMemcpyDtoH, (Word to, Word from, Word bytes), (to, from, bytes))
LOCKSTEP_DRIVER_COPY(cuMemcpyDtoD, (Word to, Word from, Word bytes), (to, from, bytes))
LOCKSTEP_DRIVER_COPY(cuMemcpy2DUnaligned, (Word copy), (copy))
LOCKSTEP_DRIVER_COPY(cuMemcpy3D, (Word copy), (copy))
LOCKSTEP_DRIVER_COPY(cuMemcpyPeer, (Word to, Word to_context, Word from, Word from_context, Word bytes),
                     (to, to_context, from, from_context, bytes))
LOCKSTEP_DRIVER_COPY(cuMemcpy3DPeer, (Word copy), (copy))
// Copies in stream order. If the host memory is pageable, the CPU thread waits as in blocking copies.
#define LOCKSTEP_DRIVER_ASYNC_COPY(NAME, PARAMETERS, ARGUMENTS)               \
  LOCKSTEP_DRIVER(NAME, PARAMETERS, ARGUMENTS, SeeAsyncCopy(stream, forward)) \
  LOCKSTEP_DRIVER(NAME##_ptsz, PARAMETERS, ARGUMENTS, SeeAsyncCopy(OwnDefault(stream), forward))
LOCKSTEP_DRIVER_ASYNC_COPY(cuMemcpyAsync, (Word to, Word from, Word bytes, void* stream), (to, from, bytes, stream))
LOCKSTEP_DRIVER_ASYNC_COPY(cuMemcpyHtoDAsync, (Word to, Word from, Word bytes, void* stream), (to, from, bytes, stream))
LOCKSTEP_DRIVER_ASYNC_COPY(cuMemcpyDtoHAsync, (Word to, Word from, Word bytes, void* stream), (to, from, bytes, stream))
LOCKSTEP_DRIVER_ASYNC_COPY(cuMemcpyDtoDAsync, (Word to, Word from, Word bytes, void* stream), (to, from, bytes, stream))
LOCKSTEP_DRIVER_ASYNC_COPY(cuMemcpyHtoAAsync, (Word array, Word offset, Word from, Word bytes, void* stream),
                           (array, offset, from, bytes, stream))
LOCKSTEP_DRIVER_ASYNC_COPY(cuMemcpyAtoHAsync, (Word to, Word array, Word offset, Word bytes, void* stream),
                           (to, array, offset, bytes, stream))
LOCKSTEP_DRIVER_ASYNC_COPY(cuMemcpy2DAsync, (Word copy, void* stream), (copy, stream))
LOCKSTEP_DRIVER_ASYNC_COPY(cuMemcpy3DAsync, (Word copy, void* stream), (copy, stream))
LOCKSTEP_DRIVER_ASYNC_COPY(cuMemcpy3DPeerAsync, (Word copy, void* stream), (copy, stream))
LOCKSTEP_DRIVER_ASYNC_COPY(cuMemcpyPeerAsync,
                           (Word to, Word to_context, Word from, Word from_context, Word bytes, void* stream),
                           (to, to_context, from, from_context, bytes, stream))
LOCKSTEP_DRIVER_ASYNC_COPY(cuMemcpyWithAttributesAsync, (Word to, Word from, Word bytes, Word attributes, void* stream),
                           (to, from, bytes, attributes, stream))
LOCKSTEP_DRIVER_ASYNC_COPY(cuMemcpy3DWithAttributesAsync, (Word operation, Word flags, void* stream),
                           (operation, flags, stream))
// The first version has a parameter for the index of the copy that failed, before the stream (3D: before the flags).
// The longer parameter list is passed on. Which parameter is the stream is unknown.
#define LOCKSTEP_DRIVER_BATCH(NAME, PARAMETERS, ARGUMENTS)        \
  LOCKSTEP_DRIVER_WAIT(NAME, kMemcpyAsync, PARAMETERS, ARGUMENTS) \
  LOCKSTEP_DRIVER_WAIT(NAME##_ptsz, kMemcpyAsync, PARAMETERS, ARGUMENTS)
LOCKSTEP_DRIVER_BATCH(cuMemcpyBatchAsync,
                      (Word to, Word from, Word sizes, Word count, Word attributes, Word indexes, Word number,
                       Word eighth, Word ninth),
                      (to, from, sizes, count, attributes, indexes, number, eighth, ninth))
LOCKSTEP_DRIVER_BATCH(cuMemcpy3DBatchAsync, (Word count, Word operations, Word third, Word fourth, Word fifth),
                      (count, operations, third, fourth, fifth))
LOCKSTEP_DRIVER_WAIT(cuMemAlloc, kCudaMalloc, (Word address, Word bytes), (address, bytes))
LOCKSTEP_DRIVER_WAIT(cuMemAllocManaged, kCudaMalloc, (Word address, Word bytes, unsigned flags),
                     (address, bytes, flags))
LOCKSTEP_DRIVER_WAIT(cuMemAllocPitch, kCudaMalloc,
                     (Word address, Word pitch, Word width, Word height, unsigned element),
                     (address, pitch, width, height, element))
LOCKSTEP_DRIVER_WAIT(cuMemFree, kCudaFree, (Word address), (address))
LOCKSTEP_DRIVER_WAIT(cuMemHostAlloc, kHostAlloc, (Word address, Word bytes, unsigned flags), (address, bytes, flags))
LOCKSTEP_DRIVER_WAIT(cuMemAllocHost, kHostAlloc, (Word address, Word bytes), (address, bytes))
LOCKSTEP_DRIVER_WAIT(cuMemHostRegister, kHostAlloc, (Word address, Word bytes, unsigned flags), (address, bytes, flags))
LOCKSTEP_DRIVER_WAIT(cuMemFreeHost, kHostFree, (Word address), (address))
LOCKSTEP_DRIVER_WAIT(cuMemHostUnregister, kHostFree, (Word address), (address))
LOCKSTEP_DRIVER_WAIT(cuMemAllocAsync, kCudaMallocAsync, (Word address, Word bytes, Word stream),
                     (address, bytes, stream))
LOCKSTEP_DRIVER_WAIT(cuMemAllocAsync_ptsz, kCudaMallocAsync, (Word address, Word bytes, Word stream),
                     (address, bytes, stream))
LOCKSTEP_DRIVER_WAIT(cuMemAllocFromPoolAsync, kCudaMallocAsync, (Word address, Word bytes, Word pool, Word stream),
                     (address, bytes, pool, stream))
LOCKSTEP_DRIVER_WAIT(cuMemAllocFromPoolAsync_ptsz, kCudaMallocAsync, (Word address, Word bytes, Word pool, Word stream),
                     (address, bytes, pool, stream))
LOCKSTEP_DRIVER_WAIT(cuMemFreeAsync, kCudaFreeAsync, (Word address, Word stream), (address, stream))
LOCKSTEP_DRIVER_WAIT(cuMemFreeAsync_ptsz, kCudaFreeAsync, (Word address, Word stream), (address, stream))
LOCKSTEP_DRIVER_WAIT(cuMemPoolTrimTo, kMemPoolTrim, (Word pool, Word keep), (pool, keep))

LOCKSTEP_DRIVER(cuStreamBeginCapture, (void* stream, int mode), (stream, mode), SeeCaptureBegin(stream, forward))
LOCKSTEP_DRIVER(cuStreamBeginCapture_ptsz, (void* stream, int mode), (stream, mode),
                SeeCaptureBegin(OwnDefault(stream), forward))
LOCKSTEP_DRIVER(cuStreamBeginCaptureToGraph, (void* stream, void* graph, Word after, Word edges, Word count, int mode),
                (stream, graph, after, edges, count, mode), SeeCaptureBegin(stream, forward))
LOCKSTEP_DRIVER(cuStreamBeginCaptureToGraph_ptsz,
                (void* stream, void* graph, Word after, Word edges, Word count, int mode),
                (stream, graph, after, edges, count, mode), SeeCaptureBegin(OwnDefault(stream), forward))
LOCKSTEP_DRIVER(cuStreamEndCapture, (void* stream, void** graph), (stream, graph),
                SeeCaptureEnd(stream, graph, forward))
LOCKSTEP_DRIVER(cuStreamEndCapture_ptsz, (void* stream, void** graph), (stream, graph),
                SeeCaptureEnd(OwnDefault(stream), graph, forward))
// The parameters are (exec, graph, error node, log, its size), or with flags (exec, graph, flags).
LOCKSTEP_DRIVER(cuGraphInstantiate, (void** exec, void* graph, Word third, Word fourth, Word fifth),
                (exec, graph, third, fourth, fifth), SeeInstantiate(exec, graph, forward))
LOCKSTEP_DRIVER(cuGraphInstantiateWithFlags, (void** exec, void* graph, Word flags), (exec, graph, flags),
                SeeInstantiate(exec, graph, forward))
LOCKSTEP_DRIVER(cuGraphInstantiateWithParams, (void** exec, void* graph, void* parameters), (exec, graph, parameters),
                SeeInstantiate(exec, graph, forward))
LOCKSTEP_DRIVER(cuGraphInstantiateWithParams_ptsz, (void** exec, void* graph, void* parameters),
                (exec, graph, parameters), SeeInstantiate(exec, graph, forward))
LOCKSTEP_DRIVER(cuGraphExecUpdate, (void* exec, void* graph, Word third, Word fourth), (exec, graph, third, fourth),
                SeeExecUpdate(exec, graph, forward))
LOCKSTEP_DRIVER(cuGraphClone, (void** clone, void* graph), (clone, graph), SeeClone(clone, graph, forward))
LOCKSTEP_DRIVER(cuGraphAddChildGraphNode, (void* node, void* graph, Word after, Word count, void* child),
                (node, graph, after, count, child), SeeAddChild(graph, child, forward))
LOCKSTEP_DRIVER(cuGraphLaunch, (void* exec, void* stream), (exec, stream), SeeLaunch(exec, stream, forward))
LOCKSTEP_DRIVER(cuGraphLaunch_ptsz, (void* exec, void* stream), (exec, stream),
                SeeLaunch(exec, OwnDefault(stream), forward))
LOCKSTEP_DRIVER(cuGraphExecDestroy, (void* exec), (exec), SeeGraphDestroy(exec, forward))
LOCKSTEP_DRIVER(cuGraphDestroy, (void* graph), (graph), SeeGraphDestroy(graph, forward))

// Results of cuGetProcAddress are wrapped too. Its flags show whether the caller asked for the per-thread variant.
void* AnswerProcAddress(const char* symbol, uint64_t flags, void* found) noexcept;

template <Way kWay>
struct cuGetProcAddress {
  static void* real;
  // The first version has no `status`, so its library does not read that parameter.
  static int Call(const char* symbol, void** function, int version, uint64_t flags, void* status) {
    using Real = int (*)(const char*, void**, int, uint64_t, void*);
    const int result = reinterpret_cast<Real>(LoadAcquire(&real))(symbol, function, version, flags, status);
    if (result == 0 && symbol != nullptr && function != nullptr && *function != nullptr) {
      *function = AnswerProcAddress(symbol, flags, *function);
    }
    return result;
  }
};
template <Way kWay>
void* cuGetProcAddress<kWay>::real;

#define LOCKSTEP_ROW(NAME, WRAPPER, WAY) \
  { NAME, reinterpret_cast<void*>(&WRAPPER<WAY>::Call), &WRAPPER<WAY>::real }
#define LOCKSTEP_ROWS(WAY)                                                                                            \
  LOCKSTEP_ROW("cuStreamSynchronize", cuStreamSynchronize, WAY),                                                      \
      LOCKSTEP_ROW("cuStreamSynchronize_ptsz", cuStreamSynchronize_ptsz, WAY),                                        \
      LOCKSTEP_ROW("cuEventSynchronize", cuEventSynchronize, WAY),                                                    \
      LOCKSTEP_ROW("cuCtxSynchronize", cuCtxSynchronize, WAY), LOCKSTEP_ROW("cuEventRecord", cuEventRecord, WAY),     \
      LOCKSTEP_ROW("cuEventRecord_ptsz", cuEventRecord_ptsz, WAY),                                                    \
      LOCKSTEP_ROW("cuEventRecordWithFlags", cuEventRecordWithFlags, WAY),                                            \
      LOCKSTEP_ROW("cuEventRecordWithFlags_ptsz", cuEventRecordWithFlags_ptsz, WAY),                                  \
      LOCKSTEP_ROW("cuStreamWaitEvent", cuStreamWaitEvent, WAY),                                                      \
      LOCKSTEP_ROW("cuStreamWaitEvent_ptsz", cuStreamWaitEvent_ptsz, WAY),                                            \
      LOCKSTEP_ROW("cuStreamCreate", cuStreamCreate, WAY),                                                            \
      LOCKSTEP_ROW("cuStreamCreateWithPriority", cuStreamCreateWithPriority, WAY),                                    \
      LOCKSTEP_ROW("cuEventCreate", cuEventCreate, WAY), LOCKSTEP_ROW("cuMemcpy", cuMemcpy, WAY),                     \
      LOCKSTEP_ROW("cuMemcpy_ptds", cuMemcpy_ptds, WAY), LOCKSTEP_ROW("cuMemcpyPeer", cuMemcpyPeer, WAY),             \
      LOCKSTEP_ROW("cuMemcpyPeer_ptds", cuMemcpyPeer_ptds, WAY), LOCKSTEP_ROW("cuMemcpy3DPeer", cuMemcpy3DPeer, WAY), \
      LOCKSTEP_ROW("cuMemcpy3DPeer_ptds", cuMemcpy3DPeer_ptds, WAY),                                                  \
      LOCKSTEP_ROW("cuMemcpyAsync", cuMemcpyAsync, WAY), LOCKSTEP_ROW("cuMemcpyAsync_ptsz", cuMemcpyAsync_ptsz, WAY), \
      LOCKSTEP_ROW("cuMemcpyPeerAsync", cuMemcpyPeerAsync, WAY),                                                      \
      LOCKSTEP_ROW("cuMemcpyPeerAsync_ptsz", cuMemcpyPeerAsync_ptsz, WAY),                                            \
      LOCKSTEP_ROW("cuMemcpy3DPeerAsync", cuMemcpy3DPeerAsync, WAY),                                                  \
      LOCKSTEP_ROW("cuMemcpy3DPeerAsync_ptsz", cuMemcpy3DPeerAsync_ptsz, WAY),                                        \
      LOCKSTEP_ROW("cuMemcpyWithAttributesAsync", cuMemcpyWithAttributesAsync, WAY),                                  \
      LOCKSTEP_ROW("cuMemcpyWithAttributesAsync_ptsz", cuMemcpyWithAttributesAsync_ptsz, WAY),                        \
      LOCKSTEP_ROW("cuMemcpy3DWithAttributesAsync", cuMemcpy3DWithAttributesAsync, WAY),                              \
      LOCKSTEP_ROW("cuMemcpy3DWithAttributesAsync_ptsz", cuMemcpy3DWithAttributesAsync_ptsz, WAY),                    \
      LOCKSTEP_ROW("cuMemAllocManaged", cuMemAllocManaged, WAY), LOCKSTEP_ROW("cuMemHostAlloc", cuMemHostAlloc, WAY), \
      LOCKSTEP_ROW("cuMemFreeHost", cuMemFreeHost, WAY),                                                              \
      LOCKSTEP_ROW("cuMemHostUnregister", cuMemHostUnregister, WAY),                                                  \
      LOCKSTEP_ROW("cuMemAllocAsync", cuMemAllocAsync, WAY),                                                          \
      LOCKSTEP_ROW("cuMemAllocAsync_ptsz", cuMemAllocAsync_ptsz, WAY),                                                \
      LOCKSTEP_ROW("cuMemAllocFromPoolAsync", cuMemAllocFromPoolAsync, WAY),                                          \
      LOCKSTEP_ROW("cuMemAllocFromPoolAsync_ptsz", cuMemAllocFromPoolAsync_ptsz, WAY),                                \
      LOCKSTEP_ROW("cuMemFreeAsync", cuMemFreeAsync, WAY),                                                            \
      LOCKSTEP_ROW("cuMemFreeAsync_ptsz", cuMemFreeAsync_ptsz, WAY),                                                  \
      LOCKSTEP_ROW("cuMemPoolTrimTo", cuMemPoolTrimTo, WAY),                                                          \
      LOCKSTEP_ROW("cuStreamBeginCaptureToGraph", cuStreamBeginCaptureToGraph, WAY),                                  \
      LOCKSTEP_ROW("cuStreamBeginCaptureToGraph_ptsz", cuStreamBeginCaptureToGraph_ptsz, WAY),                        \
      LOCKSTEP_ROW("cuStreamEndCapture", cuStreamEndCapture, WAY),                                                    \
      LOCKSTEP_ROW("cuStreamEndCapture_ptsz", cuStreamEndCapture_ptsz, WAY),                                          \
      LOCKSTEP_ROW("cuGraphInstantiateWithFlags", cuGraphInstantiateWithFlags, WAY),                                  \
      LOCKSTEP_ROW("cuGraphInstantiateWithParams", cuGraphInstantiateWithParams, WAY),                                \
      LOCKSTEP_ROW("cuGraphInstantiateWithParams_ptsz", cuGraphInstantiateWithParams_ptsz, WAY),                      \
      LOCKSTEP_ROW("cuGraphClone", cuGraphClone, WAY),                                                                \
      LOCKSTEP_ROW("cuGraphAddChildGraphNode", cuGraphAddChildGraphNode, WAY),                                        \
      LOCKSTEP_ROW("cuGraphLaunch", cuGraphLaunch, WAY), LOCKSTEP_ROW("cuGraphLaunch_ptsz", cuGraphLaunch_ptsz, WAY), \
      LOCKSTEP_ROW("cuGraphExecDestroy", cuGraphExecDestroy, WAY), LOCKSTEP_ROW("cuGraphDestroy", cuGraphDestroy, WAY)

// For lookups with cuGetProcAddress: the plain name means the version that the caller requested.
const HookedName kProcNames[] = {LOCKSTEP_ROWS(kByAddress),
                                 LOCKSTEP_ROW("cuStreamDestroy", cuStreamDestroy, kByAddress),
                                 LOCKSTEP_ROW("cuEventDestroy", cuEventDestroy, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyHtoD", cuMemcpyHtoD, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyHtoD_ptds", cuMemcpyHtoD_ptds, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyDtoH", cuMemcpyDtoH, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyDtoH_ptds", cuMemcpyDtoH_ptds, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyDtoD", cuMemcpyDtoD, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyDtoD_ptds", cuMemcpyDtoD_ptds, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpy2DUnaligned", cuMemcpy2DUnaligned, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpy2DUnaligned_ptds", cuMemcpy2DUnaligned_ptds, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpy3D", cuMemcpy3D, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpy3D_ptds", cuMemcpy3D_ptds, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyHtoDAsync_ptsz", cuMemcpyHtoDAsync_ptsz, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyDtoHAsync", cuMemcpyDtoHAsync, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyDtoHAsync_ptsz", cuMemcpyDtoHAsync_ptsz, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyDtoDAsync", cuMemcpyDtoDAsync, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyDtoDAsync_ptsz", cuMemcpyDtoDAsync_ptsz, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyHtoAAsync", cuMemcpyHtoAAsync, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyHtoAAsync_ptsz", cuMemcpyHtoAAsync_ptsz, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyAtoHAsync", cuMemcpyAtoHAsync, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyAtoHAsync_ptsz", cuMemcpyAtoHAsync_ptsz, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpy2DAsync", cuMemcpy2DAsync, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpy2DAsync_ptsz", cuMemcpy2DAsync_ptsz, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpy3DAsync", cuMemcpy3DAsync, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpy3DAsync_ptsz", cuMemcpy3DAsync_ptsz, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyBatchAsync", cuMemcpyBatchAsync, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpyBatchAsync_ptsz", cuMemcpyBatchAsync_ptsz, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpy3DBatchAsync", cuMemcpy3DBatchAsync, kByAddress),
                                 LOCKSTEP_ROW("cuMemcpy3DBatchAsync_ptsz", cuMemcpy3DBatchAsync_ptsz, kByAddress),
                                 LOCKSTEP_ROW("cuMemAlloc", cuMemAlloc, kByAddress),
                                 LOCKSTEP_ROW("cuMemAllocPitch", cuMemAllocPitch, kByAddress),
                                 LOCKSTEP_ROW("cuMemFree", cuMemFree, kByAddress),
                                 LOCKSTEP_ROW("cuMemAllocHost", cuMemAllocHost, kByAddress),
                                 LOCKSTEP_ROW("cuMemHostRegister", cuMemHostRegister, kByAddress),
                                 LOCKSTEP_ROW("cuStreamBeginCapture", cuStreamBeginCapture, kByAddress),
                                 LOCKSTEP_ROW("cuStreamBeginCapture_ptsz", cuStreamBeginCapture_ptsz, kByAddress),
                                 LOCKSTEP_ROW("cuGraphInstantiate", cuGraphInstantiate, kByAddress),
                                 LOCKSTEP_ROW("cuGraphExecUpdate", cuGraphExecUpdate, kByAddress),
                                 LOCKSTEP_ROW("cuGetProcAddress", cuGetProcAddress, kByAddress),
                                 {nullptr, nullptr, nullptr}};

const HookedName* FindProcName(const char* symbol, const char* twin) noexcept {
  const size_t length = strlen(symbol);
  for (const HookedName* row = kProcNames; row->name != nullptr; ++row) {
    if (strncmp(row->name, symbol, length) == 0 && strcmp(row->name + length, twin) == 0) return row;
  }
  return nullptr;
}

void* AnswerProcAddress(const char* symbol, uint64_t flags, void* found) noexcept {
  constexpr uint64_t kPerThreadDefault = 2;
  const HookedName* row = nullptr;
  if ((flags & kPerThreadDefault) != 0) {
    row = FindProcName(symbol, "_ptsz");
    if (row == nullptr) row = FindProcName(symbol, "_ptds");
  }
  if (row == nullptr) row = FindProcName(symbol, "");
  if (row == nullptr || (ReadCudaLayers() & kCudaDriver) == 0) return found;
  Swap<void*>(row->real, nullptr, found);
  return LoadAcquire(row->real) == found ? row->wrapper : found;
}

}  // namespace

// For lookups with dlsym: the versions that CUDA 11 to 13 use.
const HookedName kDriverNames[] = {
    LOCKSTEP_ROWS(kByName),
    LOCKSTEP_ROW("cuStreamDestroy_v2", cuStreamDestroy, kByName),
    LOCKSTEP_ROW("cuEventDestroy_v2", cuEventDestroy, kByName),
    LOCKSTEP_ROW("cuMemcpyHtoD_v2", cuMemcpyHtoD, kByName),
    LOCKSTEP_ROW("cuMemcpyHtoD_v2_ptds", cuMemcpyHtoD_ptds, kByName),
    LOCKSTEP_ROW("cuMemcpyDtoH_v2", cuMemcpyDtoH, kByName),
    LOCKSTEP_ROW("cuMemcpyDtoH_v2_ptds", cuMemcpyDtoH_ptds, kByName),
    LOCKSTEP_ROW("cuMemcpyDtoD_v2", cuMemcpyDtoD, kByName),
    LOCKSTEP_ROW("cuMemcpyDtoD_v2_ptds", cuMemcpyDtoD_ptds, kByName),
    LOCKSTEP_ROW("cuMemcpy2DUnaligned_v2", cuMemcpy2DUnaligned, kByName),
    LOCKSTEP_ROW("cuMemcpy2DUnaligned_v2_ptds", cuMemcpy2DUnaligned_ptds, kByName),
    LOCKSTEP_ROW("cuMemcpy3D_v2", cuMemcpy3D, kByName),
    LOCKSTEP_ROW("cuMemcpy3D_v2_ptds", cuMemcpy3D_ptds, kByName),
    LOCKSTEP_ROW("cuMemcpyHtoDAsync_v2", cuMemcpyHtoDAsync, kByName),
    LOCKSTEP_ROW("cuMemcpyHtoDAsync_v2_ptsz", cuMemcpyHtoDAsync_ptsz, kByName),
    LOCKSTEP_ROW("cuMemcpyDtoHAsync_v2", cuMemcpyDtoHAsync, kByName),
    LOCKSTEP_ROW("cuMemcpyDtoHAsync_v2_ptsz", cuMemcpyDtoHAsync_ptsz, kByName),
    LOCKSTEP_ROW("cuMemcpyDtoDAsync_v2", cuMemcpyDtoDAsync, kByName),
    LOCKSTEP_ROW("cuMemcpyDtoDAsync_v2_ptsz", cuMemcpyDtoDAsync_ptsz, kByName),
    LOCKSTEP_ROW("cuMemcpyHtoAAsync_v2", cuMemcpyHtoAAsync, kByName),
    LOCKSTEP_ROW("cuMemcpyHtoAAsync_v2_ptsz", cuMemcpyHtoAAsync_ptsz, kByName),
    LOCKSTEP_ROW("cuMemcpyAtoHAsync_v2", cuMemcpyAtoHAsync, kByName),
    LOCKSTEP_ROW("cuMemcpyAtoHAsync_v2_ptsz", cuMemcpyAtoHAsync_ptsz, kByName),
    LOCKSTEP_ROW("cuMemcpy2DAsync_v2", cuMemcpy2DAsync, kByName),
    LOCKSTEP_ROW("cuMemcpy2DAsync_v2_ptsz", cuMemcpy2DAsync_ptsz, kByName),
    LOCKSTEP_ROW("cuMemcpy3DAsync_v2", cuMemcpy3DAsync, kByName),
    LOCKSTEP_ROW("cuMemcpy3DAsync_v2_ptsz", cuMemcpy3DAsync_ptsz, kByName),
    LOCKSTEP_ROW("cuMemcpyBatchAsync", cuMemcpyBatchAsync, kByName),
    LOCKSTEP_ROW("cuMemcpyBatchAsync_ptsz", cuMemcpyBatchAsync_ptsz, kByName),
    LOCKSTEP_ROW("cuMemcpy3DBatchAsync", cuMemcpy3DBatchAsync, kByName),
    LOCKSTEP_ROW("cuMemcpy3DBatchAsync_ptsz", cuMemcpy3DBatchAsync_ptsz, kByName),
    LOCKSTEP_ROW("cuMemAlloc_v2", cuMemAlloc, kByName),
    LOCKSTEP_ROW("cuMemAllocPitch_v2", cuMemAllocPitch, kByName),
    LOCKSTEP_ROW("cuMemFree_v2", cuMemFree, kByName),
    LOCKSTEP_ROW("cuMemAllocHost_v2", cuMemAllocHost, kByName),
    LOCKSTEP_ROW("cuMemHostRegister_v2", cuMemHostRegister, kByName),
    LOCKSTEP_ROW("cuStreamBeginCapture_v2", cuStreamBeginCapture, kByName),
    LOCKSTEP_ROW("cuStreamBeginCapture_v2_ptsz", cuStreamBeginCapture_ptsz, kByName),
    LOCKSTEP_ROW("cuGraphInstantiate_v2", cuGraphInstantiate, kByName),
    LOCKSTEP_ROW("cuGraphExecUpdate_v2", cuGraphExecUpdate, kByName),
    LOCKSTEP_ROW("cuGetProcAddress", cuGetProcAddress, kByName),
    // The first and the second version of this function have different prototypes.
    LOCKSTEP_ROW("cuGetProcAddress_v2", cuGetProcAddress, kSecondByName),
    LOCKSTEP_ROW("cuMemcpyBatchAsync_v2", cuMemcpyBatchAsync, kSecondByName),
    LOCKSTEP_ROW("cuMemcpyBatchAsync_v2_ptsz", cuMemcpyBatchAsync_ptsz, kSecondByName),
    LOCKSTEP_ROW("cuMemcpy3DBatchAsync_v2", cuMemcpy3DBatchAsync, kSecondByName),
    LOCKSTEP_ROW("cuMemcpy3DBatchAsync_v2_ptsz", cuMemcpy3DBatchAsync_ptsz, kSecondByName),
    {nullptr, nullptr, nullptr}};

}  // namespace lockstep::recorder
