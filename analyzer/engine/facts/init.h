// Finds communicators whose creation has begun but not finished: which ranks wait in each, and which have not arrived.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

struct PendingCreation {
  uint32_t comm = kNoIndex;    // a communicator that the call creates
  uint32_t parent = kNoIndex;  // parent of a split or shrink, if known
  ring::CallKind call = ring::CallKind::kNone;
  int32_t size = 0;               // number of ranks that must arrive; 0 if unknown
  std::vector<int32_t> waiting;   // indexes into Bundle::ranks, ascending: entered and not returned
  std::vector<int32_t> returned;  // entered and returned
  std::vector<int32_t> failed;    // ranks on which the call returned an error
  std::vector<int32_t> absent;    // ranks with data that have not entered
  std::vector<int32_t> unseen;    // global ranks without data, or with a damaged file, that must enter
  int32_t unnamed = 0;            // number of further ranks that must arrive and whose numbers are unknown
  // Ranks that entered another creation of the same size, at member ranks that are missing here: most likely they have
  // a different unique id. `other` is that communicator.
  std::vector<int32_t> astray;
  uint32_t other = kNoIndex;
  bool dated = false;     // a waiting rank's source records times, which frameworks' dumps and logs do not
  int64_t oldest_ns = 0;  // the longest time that a waiting rank has been in the creation
};

// Returns creations in which a rank has waited for at least `late_after_ns`. Any wait is long enough if the job is
// known to be stuck, or if the sources record no times.
std::vector<PendingCreation> FindPendingCreations(const Model& model, int64_t late_after_ns);

// Returns the ranks that may be the missing members whose numbers are unknown, as indexes into Bundle::ranks,
// ascending. Frameworks number members in rank order. If the known members follow that order, the missing ones lie
// between their neighbors; if too few ranks do, any other rank is possible. Empty if a rank was not read, or if there
// are still too few.
std::vector<int32_t> PossibleMembers(const Model& model, const PendingCreation& creation);

}  // namespace lockstep
