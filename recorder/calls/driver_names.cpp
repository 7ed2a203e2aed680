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

// Like LOCKSTEP_DRIVER, for NAME and its variant NAME_ptsz. SEE may use `on`: the parameter `stream` or, if NAME_ptsz
// is called with null, the thread's own default stream.
#define LOCKSTEP_DRIVER_STREAM(NAME, PARAMETERS, ARGUMENTS, SEE)                      \
  LOCKSTEP_DRIVER(NAME, PARAMETERS, ARGUMENTS, [&](void* on) { return SEE; }(stream)) \
  LOCKSTEP_DRIVER(NAME##_ptsz, PARAMETERS, ARGUMENTS, [&](void* on) { return SEE; }(OwnDefault(stream)))

LOCKSTEP_DRIVER_STREAM(cuStreamSynchronize, (void* stream), (stream), SeeStreamSynchronize(on, forward))
LOCKSTEP_DRIVER(cuEventSynchronize, (void* event), (event), SeeEventSynchronize(event, forward))
LOCKSTEP_DRIVER(cuCtxSynchronize, (void* context), (context), SeeWait(CallKind::kDeviceSynchronize, forward))

LOCKSTEP_DRIVER_STREAM(cuEventRecord, (void* event, void* stream), (event, stream), SeeEventRecord(event, on, forward))
LOCKSTEP_DRIVER_STREAM(cuEventRecordWithFlags, (void* event, void* stream, unsigned flags), (event, stream, flags),
                       SeeEventRecord(event, on, forward))
LOCKSTEP_DRIVER_STREAM(cuStreamWaitEvent, (void* stream, void* event, unsigned flags), (stream, event, flags),
                       SeeStreamWait(on, event, forward))

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
#define LOCKSTEP_DRIVER_WAIT_TWINS(NAME, KIND, PARAMETERS, ARGUMENTS) \
  LOCKSTEP_DRIVER_WAIT(NAME, KIND, PARAMETERS, ARGUMENTS)             \
  LOCKSTEP_DRIVER_WAIT(NAME##_ptsz, KIND, PARAMETERS, ARGUMENTS)
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
#define LOCKSTEP_DRIVER_ASYNC_COPY(NAME, PARAMETERS, ARGUMENTS) \
  LOCKSTEP_DRIVER_STREAM(NAME, PARAMETERS, ARGUMENTS, SeeAsyncCopy(on, forward))
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
LOCKSTEP_DRIVER_WAIT_TWINS(cuMemcpyBatchAsync, kMemcpyAsync,
                           (Word to, Word from, Word sizes, Word count, Word attributes, Word indexes, Word number,
                            Word eighth, Word ninth),
                           (to, from, sizes, count, attributes, indexes, number, eighth, ninth))
LOCKSTEP_DRIVER_WAIT_TWINS(cuMemcpy3DBatchAsync, kMemcpyAsync,
                           (Word count, Word operations, Word third, Word fourth, Word fifth),
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
LOCKSTEP_DRIVER_WAIT_TWINS(cuMemAllocAsync, kCudaMallocAsync, (Word address, Word bytes, Word stream),
                           (address, bytes, stream))
LOCKSTEP_DRIVER_WAIT_TWINS(cuMemAllocFromPoolAsync, kCudaMallocAsync,
                           (Word address, Word bytes, Word pool, Word stream), (address, bytes, pool, stream))
LOCKSTEP_DRIVER_WAIT_TWINS(cuMemFreeAsync, kCudaFreeAsync, (Word address, Word stream), (address, stream))
LOCKSTEP_DRIVER_WAIT(cuMemPoolTrimTo, kMemPoolTrim, (Word pool, Word keep), (pool, keep))

LOCKSTEP_DRIVER_STREAM(cuStreamBeginCapture, (void* stream, int mode), (stream, mode), SeeCaptureBegin(on, forward))
LOCKSTEP_DRIVER_STREAM(cuStreamBeginCaptureToGraph,
                       (void* stream, void* graph, Word after, Word edges, Word count, int mode),
                       (stream, graph, after, edges, count, mode), SeeCaptureBegin(on, forward))
LOCKSTEP_DRIVER_STREAM(cuStreamEndCapture, (void* stream, void** graph), (stream, graph),
                       SeeCaptureEnd(on, graph, forward))
LOCKSTEP_DRIVER_STREAM(cuGraphLaunch, (void* exec, void* stream), (exec, stream), SeeLaunch(exec, on, forward))
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

// clang-format off
// Functions whose name is the same in both kinds of lookups.
#define LOCKSTEP_PLAIN_NAMES(X)                                                                                       \
  X(cuStreamSynchronize) X(cuStreamSynchronize_ptsz) X(cuEventSynchronize) X(cuCtxSynchronize) X(cuEventRecord)       \
  X(cuEventRecord_ptsz) X(cuEventRecordWithFlags) X(cuEventRecordWithFlags_ptsz) X(cuStreamWaitEvent)                 \
  X(cuStreamWaitEvent_ptsz) X(cuStreamCreate) X(cuStreamCreateWithPriority) X(cuEventCreate) X(cuMemcpy)              \
  X(cuMemcpy_ptds) X(cuMemcpyPeer) X(cuMemcpyPeer_ptds) X(cuMemcpy3DPeer) X(cuMemcpy3DPeer_ptds) X(cuMemcpyAsync)     \
  X(cuMemcpyAsync_ptsz) X(cuMemcpyPeerAsync) X(cuMemcpyPeerAsync_ptsz) X(cuMemcpy3DPeerAsync)                         \
  X(cuMemcpy3DPeerAsync_ptsz) X(cuMemcpyWithAttributesAsync) X(cuMemcpyWithAttributesAsync_ptsz)                      \
  X(cuMemcpy3DWithAttributesAsync) X(cuMemcpy3DWithAttributesAsync_ptsz) X(cuMemAllocManaged) X(cuMemHostAlloc)       \
  X(cuMemFreeHost) X(cuMemHostUnregister) X(cuMemAllocAsync) X(cuMemAllocAsync_ptsz) X(cuMemAllocFromPoolAsync)       \
  X(cuMemAllocFromPoolAsync_ptsz) X(cuMemFreeAsync) X(cuMemFreeAsync_ptsz) X(cuMemPoolTrimTo)                         \
  X(cuStreamBeginCaptureToGraph) X(cuStreamBeginCaptureToGraph_ptsz) X(cuStreamEndCapture)                            \
  X(cuStreamEndCapture_ptsz) X(cuGraphInstantiateWithFlags) X(cuGraphInstantiateWithParams)                           \
  X(cuGraphInstantiateWithParams_ptsz) X(cuGraphClone) X(cuGraphAddChildGraphNode) X(cuGraphLaunch)                   \
  X(cuGraphLaunch_ptsz) X(cuGraphExecDestroy) X(cuGraphDestroy) X(cuMemcpyBatchAsync) X(cuMemcpyBatchAsync_ptsz)      \
  X(cuMemcpy3DBatchAsync) X(cuMemcpy3DBatchAsync_ptsz) X(cuGetProcAddress)
// Functions with two versions: cuGetProcAddress looks them up as NAME TWIN, dlsym as NAME_v2 TWIN.
#define LOCKSTEP_VERSIONED_NAMES(X)                                                                                   \
  X(cuStreamDestroy, ) X(cuEventDestroy, ) X(cuMemcpyHtoD, ) X(cuMemcpyHtoD, _ptds) X(cuMemcpyDtoH, )                 \
  X(cuMemcpyDtoH, _ptds) X(cuMemcpyDtoD, ) X(cuMemcpyDtoD, _ptds) X(cuMemcpy2DUnaligned, )                            \
  X(cuMemcpy2DUnaligned, _ptds) X(cuMemcpy3D, ) X(cuMemcpy3D, _ptds) X(cuMemcpyHtoDAsync, )                           \
  X(cuMemcpyHtoDAsync, _ptsz) X(cuMemcpyDtoHAsync, ) X(cuMemcpyDtoHAsync, _ptsz) X(cuMemcpyDtoDAsync, )               \
  X(cuMemcpyDtoDAsync, _ptsz) X(cuMemcpyHtoAAsync, ) X(cuMemcpyHtoAAsync, _ptsz) X(cuMemcpyAtoHAsync, )               \
  X(cuMemcpyAtoHAsync, _ptsz) X(cuMemcpy2DAsync, ) X(cuMemcpy2DAsync, _ptsz) X(cuMemcpy3DAsync, )                     \
  X(cuMemcpy3DAsync, _ptsz) X(cuMemAlloc, ) X(cuMemAllocPitch, ) X(cuMemFree, ) X(cuMemAllocHost, )                   \
  X(cuMemHostRegister, ) X(cuStreamBeginCapture, ) X(cuStreamBeginCapture, _ptsz) X(cuGraphInstantiate, )             \
  X(cuGraphExecUpdate, )

#define LOCKSTEP_ROW(NAME, WRAPPER, WAY) {NAME, reinterpret_cast<void*>(&WRAPPER<WAY>::Call), &WRAPPER<WAY>::real}
#define LOCKSTEP_PLAIN_BY_ADDRESS(NAME) LOCKSTEP_ROW(#NAME, NAME, kByAddress),
#define LOCKSTEP_PLAIN_BY_NAME(NAME) LOCKSTEP_ROW(#NAME, NAME, kByName),
#define LOCKSTEP_VERSIONED_BY_ADDRESS(NAME, TWIN) LOCKSTEP_ROW(#NAME #TWIN, NAME##TWIN, kByAddress),
#define LOCKSTEP_VERSIONED_BY_NAME(NAME, TWIN) LOCKSTEP_ROW(#NAME "_v2" #TWIN, NAME##TWIN, kByName),

// For lookups with cuGetProcAddress: the plain name means the version that the caller requested.
const HookedName kProcNames[] = {
    LOCKSTEP_PLAIN_NAMES(LOCKSTEP_PLAIN_BY_ADDRESS)
    LOCKSTEP_VERSIONED_NAMES(LOCKSTEP_VERSIONED_BY_ADDRESS)
    {nullptr, nullptr, nullptr}};
// clang-format on

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
  return WrapperFor(*row, found);
}

}  // namespace

// For lookups with dlsym: the versions that CUDA 11 to 13 use.
// clang-format off
const HookedName kDriverNames[] = {
    LOCKSTEP_PLAIN_NAMES(LOCKSTEP_PLAIN_BY_NAME)
    LOCKSTEP_VERSIONED_NAMES(LOCKSTEP_VERSIONED_BY_NAME)
    // The first and the second version of these functions have different prototypes.
    LOCKSTEP_ROW("cuGetProcAddress_v2", cuGetProcAddress, kSecondByName),
    LOCKSTEP_ROW("cuMemcpyBatchAsync_v2", cuMemcpyBatchAsync, kSecondByName),
    LOCKSTEP_ROW("cuMemcpyBatchAsync_v2_ptsz", cuMemcpyBatchAsync_ptsz, kSecondByName),
    LOCKSTEP_ROW("cuMemcpy3DBatchAsync_v2", cuMemcpy3DBatchAsync, kSecondByName),
    LOCKSTEP_ROW("cuMemcpy3DBatchAsync_v2_ptsz", cuMemcpy3DBatchAsync_ptsz, kSecondByName),
    {nullptr, nullptr, nullptr}};
// clang-format on

}  // namespace lockstep::recorder
