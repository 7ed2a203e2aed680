// Hosts that stopped by themselves although their GPU has work that waits: siblings whose GPUs hold at least the same
// unfinished work went past the place where the named host stopped, so no wait for that work stopped it there.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_STOPPED_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_STOPPED_H_

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

struct StoppedHost {
  int32_t witness = -1;      // a sibling that went on, into Bundle::ranks; -1: nothing of the kind is known
  int32_t witnesses = 0;     // how many did
  const Op* next = nullptr;  // the witness's first call that the rank did not make
};

// By rank index: the ranks of frameworks' dumps that run the same part of the program, about as far.
std::vector<std::vector<int32_t>> FindSiblings(const Model& model);

// By rank index. `distrusted` ranks, whose records are known not to show what their GPUs completed, are no witnesses.
std::vector<StoppedHost> FindStoppedHosts(const Model& model, const std::vector<bool>& distrusted);

// By rank index: hosts that wait for their GPU, or of which a framework's dump does not say what they are in, where
// siblings whose GPUs hold the same unfinished work went on to a further call first. What those wait for as well is not
// what holds the named: it left out the call, or waits for work that is not NCCL's.
std::vector<StoppedHost> FindWaitsTooEarly(const Model& model, const std::vector<bool>& distrusted);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_STOPPED_H_
