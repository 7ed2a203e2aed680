// Communicators that were begun and did not come to be: who waits in the making of each, and who has not come.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_INIT_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_INIT_H_

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

struct PendingCreation {
  uint32_t comm = kNoIndex;    // a communicator that it makes
  uint32_t parent = kNoIndex;  // of a split or shrink, where known
  ring::CallKind call = ring::CallKind::kNone;
  int32_t size = 0;               // how many must come; 0 unknown
  std::vector<int32_t> waiting;   // into Bundle::ranks, ascending: entered, not returned
  std::vector<int32_t> returned;  // entered and returned
  std::vector<int32_t> failed;    // the call returned an error there
  std::vector<int32_t> absent;    // have data here, and have not entered
  std::vector<int32_t> unseen;    // global ranks without data that must come
  int32_t unnamed = 0;            // others that must come, of whom not even the rank is known
  // Ranks that may be the unnamed members (into Bundle::ranks, ascending). Empty if a rank left no data: it may be one.
  std::vector<int32_t> candidates;
  // Ranks that entered a creation of the same size in which they are at places that are free here: with another unique
  // id, as far as can be told. `other` is that communicator.
  std::vector<int32_t> astray;
  uint32_t other = kNoIndex;
  int64_t oldest_ns = 0;  // longest time that a waiting rank has been in it
};

// Those in which somebody has waited for at least `late_after_ns`, or at all where the job is known to stand still.
std::vector<PendingCreation> FindPendingCreations(const Model& model, int64_t late_after_ns);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_INIT_H_
