// Which network step does not advance: NCCL's profiler interface alone tells.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_NETWORK_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_NETWORK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

// A network operation that waits for the other end or for what lies between.
struct StuckStep {
  int32_t rank_index = -1;  // who waits
  int32_t peer_index = -1;  // who is at the other end; -1: no data from it
  int32_t peer_rank = -1;   // its global rank, -1 unknown
  const NetworkOp* op = nullptr;
};

// Of collective `seq` of the communicator (kUnknown: of any; nor is it compared of a send or receive), longest waiting
// first.
std::vector<StuckStep> StuckSteps(const Model& model, uint32_t comm, ring::CallKind kind, int64_t seq);

// A pair of ranks between which a sender has handed data over that the receiver does not get: both ends wait for the
// network and for nothing else. Empty when there is none, else the pairs, each (sender, receiver) as indexes.
std::vector<std::pair<int32_t, int32_t>> StuckLinks(const std::vector<StuckStep>& steps);

// "waits on rank 3's network, channel 2, step 14 of 64, RecvWait for 31.0 s"
std::string StepText(const Model& model, const StuckStep& step);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_NETWORK_H_
