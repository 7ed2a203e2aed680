// Plays the faults that were asked for, each from one exact place of the loop.
#ifndef LOCKSTEP_TESTS_WORKLOAD_FAULTS_H_
#define LOCKSTEP_TESTS_WORKLOAD_FAULTS_H_

#include <cuda_runtime.h>
#include <nccl.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/workload/options.h"

namespace trainsim {

// The arguments of one operation as the loop means them; a fault may change them before the call is made.
struct CallArgs {
  size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t reduction = ncclSum;
  int root = 0;             // of sends and receives: the peer
  bool other_kind = false;  // call AllGather where AllReduce was meant
  int times = 1;            // how often to call
};

// Thrown where a fault makes the rank leave its training loop.
struct LeaveLoop {
  FaultKind kind;
};

class FaultPlan {
 public:
  // Keeps the faults of `rank` only: on the others the plan is empty.
  FaultPlan(const Options& options, int rank);

  void BeginStep(int step);

  // Called before each operation is issued on `stream`, outside any group. Counts it, and plays the faults meant for
  // it: they change *args, put something on the stream, throw LeaveLoop, or never return.
  void Arrive(CommKind comm, OpKind op, cudaStream_t stream, CallArgs* args);

  // Whether a fault of `kind` with its own place is due in this step. It then counts as played.
  bool Due(FaultKind kind);

  // Empty if every fault of the current step has been played; else a line with the first that was not, and the reason.
  std::string Unplayed() const;

 private:
  struct Planned {
    Fault fault;
    int comm_size = 0;
    int own_index = 0;  // of this rank among the members
    bool played = false;
  };
  void Play(const Planned& planned, cudaStream_t stream, CallArgs* args) const;

  int rank_;
  int step_ = 0;
  std::vector<Planned> planned_;
  std::array<std::array<int, kOpKinds>, kCommKinds> issued_{};  // in the current step
};

// The fault of `kind` that strikes while `comm` is made on `rank`; it is announced then. False where none does.
bool StrikesAtStart(const Options& options, int rank, FaultKind kind, CommKind comm);

[[noreturn]] void SleepForEver();
// Reads from a pipe without a writer, like a loader whose workers hang.
[[noreturn]] void WaitForBatchForEver();

}  // namespace trainsim

#endif  // LOCKSTEP_TESTS_WORKLOAD_FAULTS_H_
