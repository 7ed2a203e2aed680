// A small executable model of a training job for the engine's tests. It contains each rank's program
// (tests/jobmodel), the waits between ranks, and in-order GPU streams. It runs the job until nothing moves and
// returns what a recorder would have seen. It shares no code with the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep::testing {

struct Call {
  int comm = -1;  // -1: the process waits for its GPU
  ring::CallKind kind = ring::CallKind::kNone;
  int64_t count = 0;
  uint8_t datatype = 7, reduction = ring::kNoReduction;
  int32_t root_or_peer = -1;
  uint64_t site = 0;
  int stream = 0;  // calls on one stream run in order
  int group = 0;   // consecutive calls in one group run together; 0: the call is alone
  // Index into the program of a call that this GPU runs first, against the order of calls.
  size_t after = SIZE_MAX;
};

struct JobComm {
  std::string name;
  std::vector<int> members;
};

enum class HostFault { kNone, kStall, kDie, kStop, kExit };

struct JobRank {
  std::vector<Call> program;
  size_t host_fault_at = SIZE_MAX;  // the CPU thread's fault strikes before it issues program[i]
  HostFault host_fault = HostFault::kNone;
  size_t gpu_stall_at = SIZE_MAX;  // the GPU never reaches program[i]
  int signal = 9;
};

class Job {
 public:
  // Ranks are numbered with tp changing fastest, then dp, then pp, as in Megatron. The program has `steps` equal
  // steps.
  Job(int tp, int pp, int dp, int steps);

  std::vector<JobComm> comms;
  std::vector<JobRank> ranks;
  bool full_marks = true;
  bool mismatch_hangs = true;

  int CommOf(int rank, const std::string& prefix) const;
  // Returns the index of the rank's nth call (from 0) on this communicator in the step.
  size_t Find(int rank, const std::string& prefix, int step, int nth = 0) const;

  Bundle Run();

 private:
  struct State {
    size_t host = 0;         // next call that the CPU thread issues
    std::vector<bool> done;  // for each call: whether the GPU has completed it
    size_t first_open = 0;   // all earlier calls are done
    bool waiting = false, faulted = false;
  };
  // Returns whether the GPU has reached this call, which has been issued.
  bool Reached(int rank, size_t call, const State& state) const;
  bool Completes(int rank, size_t call, const std::vector<State>& states) const;
  std::vector<std::vector<size_t>> step_starts_;
};

// Returns the job as it would be recorded without GPU progress markers: what its GPUs did is unknown.
Bundle WithoutMarks(Bundle bundle);

}  // namespace lockstep::testing
