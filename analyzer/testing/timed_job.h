// A small executable model of the times of a job, for the tests of clocks and slowness. Each rank computes, then
// reaches an operation. The operation begins when its last member arrives and lasts as long as its bytes need; then the
// rank continues. The result is what a recorder would write, on each host's own clock. It shares no code with the
// engine.
#ifndef LOCKSTEP_ANALYZER_TESTING_TIMED_JOB_H_
#define LOCKSTEP_ANALYZER_TESTING_TIMED_JOB_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep::testing {

struct TimedJob {
  // tp fastest, then dp, then pp, as Megatron numbers ranks.
  int tp = 2, pp = 1, dp = 4, steps = 8, gpus_per_host = 4, micro_batches = 2;
  int64_t compute_ns = 5'000'000, transfer_ns = 1'000'000;
  double jitter = 0.02;  // of each computation, even on both sides
  uint64_t seed = 1;
  bool record_started = true, record_completed = true;
  bool host_runs_ahead = true;   // else it issues an operation when the GPU is there
  int64_t sampled_every_ns = 0;  // what the marks are looked at with; 0: exact
  TimeSource source = TimeSource::kEvents;
  // What is wrong, if anything: factor of a rank's computation in a step; of a communicator's transfer in a step; delay
  // added to a rank's computation before operation `nth` of a step.
  std::function<double(int rank, int step)> compute_factor;
  std::function<double(const std::vector<int>& members, int step)> transfer_factor;
  std::function<int64_t(int rank, int step, int nth)> delay_ns;
  // What host h's clock shows at true time t.
  std::function<int64_t(int host, int64_t t)> clock;

  int Ranks() const { return tp * pp * dp; }
  Bundle Run() const;
  mutable std::vector<int64_t> true_step_ends;  // of the last Run: when the last rank ended each step
};

}  // namespace lockstep::testing

#endif  // LOCKSTEP_ANALYZER_TESTING_TIMED_JOB_H_
