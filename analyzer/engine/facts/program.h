// Finds the place where one rank's program differs from that of ranks with the same role. Ranks with the same role
// (same kinds of communicators, same place in the pipeline) issue the same calls. Aligning a rank's record with the
// calls of most others reveals a skipped, added or changed call. This identifies the wrong rank even if the
// communicator itself has no majority.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

struct Divergence {
  enum class Type { kSkipped, kExtra, kChanged, kReordered };
  Type type = Type::kSkipped;
  int32_t rank = -1;  // index into Bundle::ranks
  // The call that differs; kSkipped: the call made instead.
  const Op* own = nullptr;
  const Op* sibling = nullptr;  // the call that ranks with the same role issued there
  int32_t sibling_rank = -1;
  int32_t siblings_agreeing = 0;  // number of ranks with the role that followed the reference
  int32_t family_size = 0;        // number of ranks with the role
  // Both sides have equally many ranks, and this rank left the sequence that both followed in earlier steps.
  bool by_history = false;
};

// Returns which of two different calls the precedents support: 0 for the first, 1 for the second, -1 for neither. Needs
// at least two precedents for one call, and none for the other. `votes` are the numbers of precedents for each.
inline int Agreed(const int (&votes)[2]) {
  return votes[0] >= 2 && votes[1] == 0 ? 0 : votes[1] >= 2 && votes[0] == 0 ? 1 : -1;
}

// Returns at most one divergence for each rank: its first. Needs a clear reference among the ranks with the same role.
// If there are only two such ranks, the ranks that wait for one of them decide; otherwise, the earlier calls of both.
// Unless `hung` is set, swapped calls of two communicators are a divergence, too.
std::vector<Divergence> FindDivergences(const Model& model, bool hung = true);

}  // namespace lockstep
