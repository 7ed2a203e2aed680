// Plays the requested faults, each at one exact position in the training loop.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/workload/options.h"

namespace trainsim {

// The intended arguments of an operation. A fault may change them before the call.
struct CallArgs {
  size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t reduction = ncclSum;
  int root = 0;             // or the peer of a send or receive
  bool other_kind = false;  // calls AllGather instead of AllReduce
  int times = 1;            // number of calls
};

// Thrown if a fault makes the rank leave its training loop.
struct LeaveLoop {
  FaultKind kind;
};

class FaultPlan {
 public:
  // Keeps the faults of `rank`, except those that strike at the start.
  FaultPlan(const Options& options, int rank);

  void BeginStep(int step);

  // Call it before each operation on `stream`, outside of groups. Counts the operation and plays its faults: they
  // change *args, put work on the stream, throw LeaveLoop, or never return.
  void Arrive(CommKind comm, OpKind op, cudaStream_t stream, CallArgs* args);

  // Returns whether a fault of `kind`, which must have its own trigger, is due in this step. Marks the fault as played.
  bool Due(FaultKind kind);

  // Returns a line about the first fault of the current step that was not played, with the reason; empty if there is
  // none.
  std::string Unplayed() const;

 private:
  struct Planned {
    Fault fault;
    int comm_size = 0;
    int own_index = 0;  // this rank's index among the members
    bool played = false;
  };
  void Play(const Planned& planned, cudaStream_t stream, CallArgs* args) const;

  int rank_;
  int step_ = 0;
  std::vector<Planned> planned_;
  std::array<std::array<int, kOpKinds>, kCommKinds> issued_{};  // number of operations issued in the current step
};

// Returns whether `rank` has a fault of `kind` while it creates `comm`, and announces the fault.
bool StrikesAtStart(const Options& options, int rank, FaultKind kind, CommKind comm);

[[noreturn]] void SleepForEver();
// Reads from a pipe without a writer, like a loader with hung workers.
[[noreturn]] void WaitForBatchForEver();

}  // namespace trainsim
