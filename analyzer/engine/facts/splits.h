// Finds ranks whose communicators differ from those of similar ranks. Such a rank passed a different color to a split,
// or a different list of members. All communicators of a split have equally many members, equally far apart in the
// parent. If all but a few ranks fit this pattern, the exceptions are wrong, although each communicator alone looks
// healthy.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/cause.h"
#include "analyzer/engine/facts/model.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// `ranks` and `missing` are the ranks that differ. `comm` is the communicator that the first of them is in, or `home`
// if there is none.
struct SplitFault : Cause {
  uint32_t home = kNoIndex;  // the communicator to which the first rank belongs; kNoIndex if no rank created it
  // Communicators with a missing or extra member.
  std::vector<uint32_t> affected;
  bool agreed = false;  // all members list the same members, and only the shape of the other groups shows the fault
};

// `stalled` is true if the job is stuck. A pattern that few communicators support counts only then.
std::vector<SplitFault> FindSplitFaults(const Model& model, bool stalled);

}  // namespace lockstep
