// What is wrong in the recorded calls of a job's first steps, whether or not the job hung in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/engine/view.h"

namespace lockstep::check {

// The call at which a fault shows.
struct CallAt {
  std::vector<int32_t> ranks;
  std::string call;  // "AllReduce #12 on tp_2 (ranks 4-5)"
  std::string site;  // "train.py:88 step"; empty if unknown
};

struct Fault {
  std::string kind;  // "SKIPPED_CALL"; for what stopped the job, the kind of the verdict's finding
  std::vector<int32_t> ranks;
  std::string text;  // one sentence
  std::vector<CallAt> calls;
};

struct Found {
  std::vector<Fault> faults;
  size_t ranks = 0, comms = 0, calls = 0;
  std::vector<std::string> not_checked;  // and why
};

// `whole`: no signal ended the job, so a call without its counterpart will never get one. `failed`: the job ended with
// an error of its own.
Found FindFaults(const AnalysisView& view, bool whole, bool failed = false);

// Finds the first cycle of ranks that would wait for each other without NCCL's buffers, or if streams did not run side
// by side (order.cpp).
std::vector<Fault> FindCycles(const Model& model);

// A call as the texts name it.
CallAt CallOfRank(const Bundle& bundle, size_t rank_index, const Op& op);

// Returns whether the call was launched and belongs to a communicator.
bool IsLaunched(const Op& op);

}  // namespace lockstep::check
