// Runs one rank of the training loop: issues an entire step on its streams, then waits for the loss, as frameworks do.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/workload/comms.h"
#include "tests/workload/device.h"
#include "tests/workload/faults.h"
#include "tests/workload/options.h"

namespace trainsim {

class Trainer {
 public:
  // All arguments must outlive the trainer.
  Trainer(const Options& options, int rank, Communicators* comms);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Issues step `step` (from 1), waits for its loss and verifies every result. A fault may throw LeaveLoop.
  void Step(int step);

  // Returns the mean loss of the last step over all ranks.
  double loss() const { return loss_; }

  // Issues an operation of the data group on all members except the first. Then aborts the communicator on all ranks
  // and creates it again.
  void Recreate();

  // Occupies the GPU for `seconds` without communication, and waits for the GPU.
  void ComputeFor(double seconds);

  // Frees buffers and streams, but not the communicators.
  void TearDown();

 private:
  // A rank's values of one type on one communicator, in `shares` parts of equal length.
  struct Plane {
    ncclDataType_t type = ncclFloat32;
    int64_t count = 0;
    int64_t shares = 1;
    Memory staging;  // pinned memory
    Memory device;
  };
  // A result to compare with its expected value after the step.
  struct Check {
    const Comm* comm;
    const char* what;
    ncclDataType_t type;
    double expected;
  };
  enum class Join { kNow, kLater };

  void AddPlane(CommKind kind, ncclDataType_t type, int64_t count, int64_t shares);
  const char* Input(CommKind kind, ncclDataType_t type) const;
  void Fill(Plane* plane, double base);

  // Issues the entire step, from its batch to its loss.
  void Issue();
  void Capture();
  void LoadBatch();
  void BroadcastInputs();
  void Compute();
  double ExtraMilliseconds() const;
  void ForwardLayer();
  void BackwardLayer();
  void ExpertForward();
  void ExpertBackward();
  void ReduceGradients(int layer);
  void Optimize();
  void UseNorm(const char* norm);
  void ReduceLoss();
  void WaitForLoss();
  void Verify();

  // Runs the 1F1B schedule (trainer_pipeline.cpp).
  void Pipeline();
  void Forward();
  void Backward(bool last);
  void StageActivation(int64_t share, const Memory& buffer);
  void ExpectActivation(const Memory& buffer, int sender, int64_t share, const char* what);
  CallArgs ArriveAtPeer(OpKind op, int peer);
  void SendForward(int micro_batch);
  void RecvForward(int micro_batch);
  void SendBackward(int micro_batch);
  void RecvBackward(int micro_batch);
  void SendForwardRecvBackward(int forward, int backward);
  void SendBackwardRecvForward(int backward, int forward);

  // HandOver makes the communication stream wait for the computation so far; TakeBack does the reverse.
  void HandOver(Comm& comm);
  void TakeBack(Comm& comm);
  // Issues one operation. call(args) makes the NCCL call, because each needs its own call site.
  template <typename Call>
  void Launch(Comm& comm, OpKind op, CallArgs args, Join join, Call&& call);

  void Poison(const Memory& memory) { Poison(memory.data(), memory.size()); }
  void Poison(char* data, size_t size);
  // Stores a check: after the computation so far, *element must decode to `expected`.
  void Expect(const Comm& comm, const char* what, ncclDataType_t type, const char* element, double expected);
  double Base(int rank) const { return BaseValue(options_.seed, step_, rank); }
  // Returns the sum of all members' values in share `share`.
  double SumOf(const Comm& comm, int64_t share) const;

  const Options& options_;
  const int rank_;
  Communicators& comms_;
  FaultPlan faults_;
  const Place place_;
  int step_ = 0;
  // If true, the step's graph replaces all calls. Only faults of the CPU thread and of the GPU before the graph occur,
  // and the checks are stored.
  bool dry_ = false;
  bool capturing_ = false;
  cudaGraphExec_t graph_ = nullptr;
  bool no_group_ = false;  // fault: the sends and receives of the steady state are not grouped in this step
  double loss_ = 0;

  cudaStream_t compute_ = nullptr;
  cudaEvent_t loss_ready_ = nullptr;
  std::map<std::pair<CommKind, ncclDataType_t>, Plane> planes_;
  std::array<Memory, kCommKinds> results_;
  std::vector<Memory> gradients_;  // one for each layer; reduced during the backward pass
  Memory send_next_, send_prev_, recv_next_, recv_prev_;
  Memory work_;
  Memory loss_host_;
  Memory check_values_;  // pinned memory, 8 bytes for each check
  std::vector<Check> checks_;
};

template <typename Call>
void Trainer::Launch(Comm& comm, OpKind op, CallArgs args, Join join, Call&& call) {
  HandOver(comm);
  faults_.Arrive(comm.kind, op, dry_ ? compute_ : comm.stream, &args);
  if (dry_) return;
  for (int i = 0; i < args.times; ++i) NCCL_OK(call(args));
  if (join == Join::kNow) TakeBack(comm);
}

}  // namespace trainsim
