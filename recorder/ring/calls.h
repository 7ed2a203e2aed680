// The calls that Lockstep records. Their numbers are permanent, because ring files and dumps contain them: values are
// only added.
#pragma once

#include <cstdint>

namespace lockstep::ring {

enum class CallKind : uint16_t {
  kNone = 0,
  // Collectives share one sequence number per communicator. ncclBcast is recorded as kBroadcast.
  kAllReduce = 1,
  kReduce = 2,
  kBroadcast = 3,
  kAllGather = 4,
  kReduceScatter = 5,
  kAlltoAll = 6,
  kGather = 7,
  kScatter = 8,
  kBarrier = 9,           // a framework's barrier; only in Flight Recorder dumps
  kCoalesced = 10,        // a framework's coalesced batch of several collectives
  kOtherCollective = 15,  // a collective with an unknown name
  // Point to point: one sequence number per communicator, peer and direction.
  kSend = 16,
  kRecv = 17,
  // One-sided calls.
  kPutSignal = 20,
  kSignal = 21,
  kWaitSignal = 22,
  // Groups.
  kGroup = 24,  // the outermost GroupStart .. GroupEnd as a whole
  kGroupStart = 25,
  kGroupEnd = 26,
  kGroupSimulateEnd = 27,
  // Communicator lifecycle.
  kCommInitRank = 32,
  kCommInitAll = 33,
  kCommInitRankConfig = 34,
  kCommInitRankScalable = 35,
  kCommSplit = 36,
  kCommShrink = 37,
  kCommGrow = 38,
  kCommFinalize = 39,
  kCommDestroy = 40,
  kCommAbort = 41,
  kCommRevoke = 42,
  kCommSuspend = 43,
  kCommResume = 44,
  kCommAsyncError = 45,  // a change of the result of ncclCommGetAsyncError
  // Other NCCL calls that can block or affect later calls.
  kRedOpCreate = 48,
  kRedOpDestroy = 49,
  kMemAlloc = 50,
  kMemFree = 51,
  kCommRegister = 52,
  kCommDeregister = 53,
  kWindowRegister = 54,
  kWindowDeregister = 55,
  kGetUniqueId = 56,
  // Waits of CPU threads in CUDA calls. They are only in thread cells, never in event records.
  kStreamSynchronize = 64,
  kEventSynchronize = 65,
  kDeviceSynchronize = 66,
  kMemcpy = 67,
  kCudaMalloc = 68,
  kCudaFree = 69,
  kHostAlloc = 70,    // cudaMallocHost, cudaHostAlloc, cudaHostRegister
  kHostFree = 71,     // cudaFreeHost, cudaHostUnregister
  kGraphLaunch = 72,  // in a snapshot also a launch whose operations are not listed one by one
  kCudaMallocAsync = 73,
  kCudaFreeAsync = 74,
  kGraphInstantiate = 75,
  kGraphDestroy = 76,
  kMemPoolTrim = 77,
  kMemcpyAsync = 78,  // waits if pageable host memory is involved
  kLaunch = 79,       // launch of a kernel or other work; never in a ring file, only for stacks of waiting threads
  // A communicator that only NCCL's profiler interface reported; how it was created is unknown.
  kProfilerComm = 80,
};

constexpr bool IsCollective(CallKind kind) {
  return kind >= CallKind::kAllReduce && kind <= CallKind::kOtherCollective;
}
constexpr bool IsPointToPoint(CallKind kind) { return kind == CallKind::kSend || kind == CallKind::kRecv; }
// One-sided calls are numbered per communicator, peer and direction: signals sent, and signals waited for.
constexpr bool IsOneSided(CallKind kind) { return kind >= CallKind::kPutSignal && kind <= CallKind::kWaitSignal; }
constexpr bool IsCommInit(CallKind kind) { return kind >= CallKind::kCommInitRank && kind <= CallKind::kCommGrow; }
constexpr bool IsHostWait(CallKind kind) { return kind >= CallKind::kStreamSynchronize && kind <= CallKind::kLaunch; }

// Returns "AllReduce", "Send", "CommInitRank", "cudaStreamSynchronize", ...; "unknown call" for an unknown value.
constexpr const char* CallName(CallKind kind) {
  switch (kind) {
    case CallKind::kNone: return "none";
    case CallKind::kAllReduce: return "AllReduce";
    case CallKind::kReduce: return "Reduce";
    case CallKind::kBroadcast: return "Broadcast";
    case CallKind::kAllGather: return "AllGather";
    case CallKind::kReduceScatter: return "ReduceScatter";
    case CallKind::kAlltoAll: return "AlltoAll";
    case CallKind::kGather: return "Gather";
    case CallKind::kScatter: return "Scatter";
    case CallKind::kBarrier: return "Barrier";
    case CallKind::kCoalesced: return "Coalesced";
    case CallKind::kOtherCollective: return "Collective";
    case CallKind::kSend: return "Send";
    case CallKind::kRecv: return "Recv";
    case CallKind::kPutSignal: return "PutSignal";
    case CallKind::kSignal: return "Signal";
    case CallKind::kWaitSignal: return "WaitSignal";
    case CallKind::kGroup: return "Group";
    case CallKind::kGroupStart: return "GroupStart";
    case CallKind::kGroupEnd: return "GroupEnd";
    case CallKind::kGroupSimulateEnd: return "GroupSimulateEnd";
    case CallKind::kCommInitRank: return "CommInitRank";
    case CallKind::kCommInitAll: return "CommInitAll";
    case CallKind::kCommInitRankConfig: return "CommInitRankConfig";
    case CallKind::kCommInitRankScalable: return "CommInitRankScalable";
    case CallKind::kCommSplit: return "CommSplit";
    case CallKind::kCommShrink: return "CommShrink";
    case CallKind::kCommGrow: return "CommGrow";
    case CallKind::kCommFinalize: return "CommFinalize";
    case CallKind::kCommDestroy: return "CommDestroy";
    case CallKind::kCommAbort: return "CommAbort";
    case CallKind::kCommRevoke: return "CommRevoke";
    case CallKind::kCommSuspend: return "CommSuspend";
    case CallKind::kCommResume: return "CommResume";
    case CallKind::kCommAsyncError: return "CommGetAsyncError";
    case CallKind::kRedOpCreate: return "RedOpCreatePreMulSum";
    case CallKind::kRedOpDestroy: return "RedOpDestroy";
    case CallKind::kMemAlloc: return "MemAlloc";
    case CallKind::kMemFree: return "MemFree";
    case CallKind::kCommRegister: return "CommRegister";
    case CallKind::kCommDeregister: return "CommDeregister";
    case CallKind::kWindowRegister: return "CommWindowRegister";
    case CallKind::kWindowDeregister: return "CommWindowDeregister";
    case CallKind::kGetUniqueId: return "GetUniqueId";
    case CallKind::kStreamSynchronize: return "cudaStreamSynchronize";
    case CallKind::kEventSynchronize: return "cudaEventSynchronize";
    case CallKind::kDeviceSynchronize: return "cudaDeviceSynchronize";
    case CallKind::kMemcpy: return "cudaMemcpy";
    case CallKind::kCudaMalloc: return "cudaMalloc";
    case CallKind::kCudaFree: return "cudaFree";
    case CallKind::kHostAlloc: return "cudaHostAlloc";
    case CallKind::kHostFree: return "cudaFreeHost";
    case CallKind::kGraphLaunch: return "cudaGraphLaunch";
    case CallKind::kCudaMallocAsync: return "cudaMallocAsync";
    case CallKind::kCudaFreeAsync: return "cudaFreeAsync";
    case CallKind::kGraphInstantiate: return "cudaGraphInstantiate";
    case CallKind::kGraphDestroy: return "cudaGraphExecDestroy";
    case CallKind::kMemPoolTrim: return "cudaMemPoolTrimTo";
    case CallKind::kMemcpyAsync: return "cudaMemcpyAsync";
    case CallKind::kLaunch: return "cudaLaunchKernel";
    case CallKind::kProfilerComm: return "communicator reported by NCCL's profiler interface";
  }
  return "unknown call";
}

// ncclDataType_t and ncclRedOp_t are stored with NCCL's numbers (nccl.h 2.32). These additional values mean "not
// applicable".
constexpr uint8_t kNoDatatype = 0xff;
constexpr uint8_t kNoReduction = 0xff;
// Reductions from ncclRedOpCreatePreMulSum: 0x10 + creation ordinal in the communicator (at most 0x7f). NCCL scrambles
// the handle's own number for each communicator, so ranks cannot compare it.
constexpr uint8_t kCustomReductionBase = 0x10;
constexpr uint8_t kCustomReductionLast = 0x7f;

}  // namespace lockstep::ring
