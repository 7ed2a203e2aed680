// A small executable model of a training job for the engine's tests: each rank's program (tests/jobmodel), which rank
// waits for which, in-order GPU streams. It plays the job until nothing moves and returns what a recorder would have
// seen. It shares no code with the engine.
#ifndef LOCKSTEP_ANALYZER_TESTING_JOB_H_
#define LOCKSTEP_ANALYZER_TESTING_JOB_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep::testing {

struct Call {
  int comm = -1;  // -1: the host waits for its GPU
  ring::CallKind kind = ring::CallKind::kNone;
  int64_t count = 0;
  uint8_t datatype = 7, reduction = ring::kNoReduction;
  int32_t root_or_peer = -1;
  uint64_t site = 0;
  int stream = 0;  // calls of one stream run in order
  int group = 0;   // consecutive calls of one group run together; 0: alone
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
  size_t host_fault_at = SIZE_MAX;  // before issuing program[i]
  HostFault host_fault = HostFault::kNone;
  size_t gpu_stall_at = SIZE_MAX;  // the GPU never gets to program[i]
  int signal = 9;
};

class Job {
 public:
  // tp fastest, then dp, then pp, as Megatron numbers ranks. `steps` steps of the same program.
  Job(int tp, int pp, int dp, int steps);

  std::vector<JobComm> comms;
  std::vector<JobRank> ranks;
  bool full_marks = true;
  bool mismatch_hangs = true;

  int CommOf(int rank, const std::string& prefix) const;
  // Index in the rank's program of the nth call (from 0) on this communicator of the given step.
  size_t Find(int rank, const std::string& prefix, int step, int nth = 0) const;

  // Plays until nothing moves.
  Bundle Run();

 private:
  struct State {
    size_t host = 0;         // next call to issue
    std::vector<bool> done;  // by call: the GPU has completed it
    size_t first_open = 0;   // everything before is done
    bool waiting = false, faulted = false;
  };
  // The GPU reached this call, which has been issued.
  bool Reached(int rank, size_t call, const State& state) const;
  bool Completes(int rank, size_t call, const std::vector<State>& states) const;
  std::vector<std::vector<size_t>> step_starts_;
};

}  // namespace lockstep::testing

#endif  // LOCKSTEP_ANALYZER_TESTING_JOB_H_
