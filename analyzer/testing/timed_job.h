// A small executable model of a job's times, for tests of clocks and slowness. Each rank computes, then reaches an
// operation. The operation begins when its last member arrives and lasts as long as its bytes need; then the rank
// continues. The result is what a recorder would write, on each host's own clock. The model shares no code with the
// engine.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep::testing {

struct TimedJob {
  // tp changes fastest, then dp, then pp, as in Megatron
  int tp = 2, pp = 1, dp = 4, steps = 8, gpus_per_host = 4, micro_batches = 2;
  int64_t compute_ns = 5'000'000, transfer_ns = 1'000'000;
  double jitter = 0.02;  // relative jitter of each computation, symmetric
  uint64_t seed = 1;
  bool record_started = true, record_completed = true;
  bool host_runs_ahead = true;   // if false, the CPU thread issues an operation when the GPU reaches it
  int64_t sampled_every_ns = 0;  // interval at which markers are read; 0: times are exact
  TimeSource source = TimeSource::kEvents;
  // Optional faults: a factor for a rank's computation in a step, a factor for a communicator's transfer, and a delay
  // before operation `nth` of a step.
  std::function<double(int rank, int step)> compute_factor;
  std::function<double(const std::vector<int>& members, int step)> transfer_factor;
  std::function<int64_t(int rank, int step, int nth)> delay_ns;
  // Returns what host h's clock shows at true time t.
  std::function<int64_t(int host, int64_t t)> clock;

  int Ranks() const { return tp * pp * dp; }
  Bundle Run() const;
  mutable std::vector<int64_t> true_step_ends;  // from the last Run: when the last rank ended each step
};

}  // namespace lockstep::testing
