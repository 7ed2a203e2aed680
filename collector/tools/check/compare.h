// Finds faults in the recorded calls of a job's first steps, whether or not the job hung.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/engine/view.h"

namespace lockstep::check {

// The call that shows a fault.
struct CallAt {
  std::vector<int32_t> ranks;
  std::string call;  // "AllReduce #12 on tp_2 (ranks 4-5)"
  std::string site;  // "train.py:88 step"; empty if unknown
};

struct Fault {
  std::string kind;  // such as "SKIPPED_CALL"; the kind of the verdict's finding if the fault stopped the job
  std::vector<int32_t> ranks;
  std::string text;  // one sentence
  std::vector<CallAt> calls;
};

struct Found {
  std::vector<Fault> faults;
  std::vector<Fault> unfinished;  // no faults: if the time limit ended the job, the calls that ranks waited in
  size_t ranks = 0, comms = 0, calls = 0;
  std::vector<std::string> not_checked;  // each with the reason
};

enum class HowEnded {
  kWell,    // by itself with status 0, so a call without a counterpart will never get one
  kFailed,  // by itself with another status
  kCut,     // at the time limit, so a call that has not completed may still do so if a rank moves
  kInterrupted,
};

Found FindFaults(const AnalysisView& view, HowEnded how);

// Finds the first cycle of ranks that would wait for each other without NCCL's buffers, or without concurrent streams
// (order.cpp).
std::vector<Fault> FindCycles(const Model& model);

// Describes a call for the report.
CallAt CallOfRank(const Bundle& bundle, size_t rank_index, const Op& op);

// Returns whether the call is a collective, send or receive that was launched on a communicator.
bool IsLaunched(const Op& op);

}  // namespace lockstep::check
