// Finds network steps that do not advance. Only NCCL's profiler interface shows them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/engine/facts/cause.h"
#include "analyzer/engine/facts/model.h"

namespace lockstep {

// A network operation that waits for its other end, or for the network in between.
struct StuckStep {
  int32_t rank_index = -1;  // the rank that waits
  int32_t peer_index = -1;  // the rank at the other end; -1: no data
  int32_t peer_rank = -1;   // global rank of the other end; -1 if unknown
  const NetworkOp* op = nullptr;
};

// Returns the network steps that wait in collective `seq` of this kind, longest wait first. kUnknown means any number.
// If `kind` is a send or receive, returns those of all sends and receives.
std::vector<StuckStep> StuckSteps(const Model& model, uint32_t comm, ring::CallKind kind, int64_t seq);

// Returns pairs of ranks (sender, receiver; as indexes) between which data does not arrive: both ends wait only for the
// network.
std::vector<std::pair<int32_t, int32_t>> StuckLinks(const std::vector<StuckStep>& steps);

// Returns evidence of kind NETWORK_STEP.
EvidenceItem EvidenceOf(const Model& model, const StuckStep& step);

}  // namespace lockstep
