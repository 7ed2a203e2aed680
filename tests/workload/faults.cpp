#include "tests/workload/faults.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tests/workload/comms.h"
#include "tests/workload/device.h"

namespace trainsim {
namespace {

[[noreturn]] void ComputeForEver() {
  volatile uint64_t value = 1;
  while (true) value = value * 6364136223846793005ULL + 1;
}

void CUDART_CB BlockStream(void* /*unused*/) { SleepForEver(); }

// Returns another type of at most the same size, so that no buffer overruns if a library accepts the call.
ncclDataType_t OtherType(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64: return ncclFloat32;
    case ncclInt64: return ncclInt32;
    case ncclFloat32: return ncclBfloat16;
    case ncclInt32:
    case ncclFloat16:
    case ncclBfloat16: return ncclUint8;
    default: return ncclInt8;
  }
}

}  // namespace

void SleepForEver() {
  while (true) pause();
}

void WaitForBatchForEver() {
  int ends[2];
  char byte = 0;
  if (pipe(ends) != 0) FailCall("pipe", std::strerror(errno), __FILE__, __LINE__);
  while (true) {
    if (read(ends[0], &byte, 1) < 0 && errno != EINTR) FailCall("read", std::strerror(errno), __FILE__, __LINE__);
  }
}

bool StrikesAtStart(const Options& options, int rank, FaultKind kind, CommKind comm) {
  for (const Fault& fault : options.faults) {
    if (fault.rank != rank || fault.kind != kind || fault.comm != comm) continue;
    std::fprintf(stderr, "trainsim: rank %d: fault %s at the start of %s\n", rank, Name(kind), Name(comm));
    return true;
  }
  return false;
}

FaultPlan::FaultPlan(const Options& options, int rank) : rank_(rank) {
  for (const Fault& fault : options.faults) {
    if (fault.rank == rank && !AtStart(fault.kind)) {
      planned_.push_back({fault, options.CommSize(fault.comm), GroupOf(options, fault.comm, rank).index, false});
    }
  }
}

void FaultPlan::BeginStep(int step) {
  step_ = step;
  issued_ = {};
}

void FaultPlan::Arrive(CommKind comm, OpKind op, cudaStream_t stream, CallArgs* args) {
  const int index = issued_[static_cast<size_t>(comm)][static_cast<size_t>(op)]++;
  for (Planned& planned : planned_) {
    const Fault& fault = planned.fault;
    if (!AtOperation(fault.kind) || fault.step != step_ || fault.comm != comm || fault.op != op || fault.nth != index)
      continue;
    planned.played = true;
    std::fprintf(stderr, "trainsim: rank %d: fault %s in step %d at %s %s %d\n", rank_, Name(fault.kind), step_,
                 Name(comm), Name(op), index);
    Play(planned, stream, args);
  }
}

bool FaultPlan::Due(FaultKind kind) {
  for (Planned& planned : planned_) {
    if (planned.fault.kind != kind || planned.fault.step != step_ || planned.played) continue;
    planned.played = true;
    std::fprintf(stderr, "trainsim: rank %d: fault %s in step %d\n", rank_, Name(kind), step_);
    return true;
  }
  return false;
}

std::string FaultPlan::Unplayed() const {
  for (const Planned& planned : planned_) {
    const Fault& fault = planned.fault;
    if (planned.played || fault.step != step_) continue;
    if (!AtOperation(fault.kind)) {
      return std::string("fault ") + Name(fault.kind) + " was not played: it cannot occur in this rank's step";
    }
    const int issued = issued_[static_cast<size_t>(fault.comm)][static_cast<size_t>(fault.op)];
    return std::string("fault ") + Name(fault.kind) + " was not played: a step issues " + std::to_string(issued) + " " +
           Name(fault.comm) + " " + Name(fault.op) + " on this rank, nth=" + std::to_string(fault.nth) +
           " is beyond them";
  }
  return "";
}

void FaultPlan::Play(const Planned& planned, cudaStream_t stream, CallArgs* args) const {
  const Fault& fault = planned.fault;
  switch (fault.kind) {
    case FaultKind::kStallHost: SleepForEver();
    case FaultKind::kStallGpu: CUDA_OK(cudaLaunchHostFunc(stream, BlockStream, nullptr)); return;
    case FaultKind::kKill: kill(getpid(), SIGKILL); return;
    case FaultKind::kSegv: {
      // `volatile` hides the pointer from the optimizer, which would replace a write to a known address 0 by a trap.
      volatile int* volatile nowhere = nullptr;
      *nowhere = 1;
      return;
    }
    case FaultKind::kStop: kill(getpid(), SIGSTOP); return;
    case FaultKind::kSkip: args->times = 0; return;
    case FaultKind::kExtra: args->times = 2; return;
    case FaultKind::kWrongCount:
      args->count = fault.value ? static_cast<size_t>(*fault.value) : args->count / 2;
      return;
    case FaultKind::kWrongDatatype: args->type = OtherType(args->type); return;
    case FaultKind::kWrongReduction: args->reduction = ncclMax; return;
    case FaultKind::kWrongRoot:
      args->root = fault.value ? static_cast<int>(*fault.value) : planned.comm_size - 1;
      return;
    case FaultKind::kWrongOp: args->other_kind = true; return;
    case FaultKind::kExitEarly:
    case FaultKind::kException: throw LeaveLoop{fault.kind};
    case FaultKind::kSpinHost: ComputeForEver();
    case FaultKind::kOpenGroup: NCCL_OK(ncclGroupStart()); return;
    case FaultKind::kWrongPeer:
      args->root = fault.value ? static_cast<int>(*fault.value) : (args->root + 1) % planned.comm_size;
      if (args->root == planned.own_index) args->root = (args->root + 1) % planned.comm_size;
      return;
    default: return;  // this fault occurs elsewhere
  }
}

}  // namespace trainsim
