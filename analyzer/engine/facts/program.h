// Where one rank's program left the one its siblings run. Ranks in the same role (same kinds of communicators, same
// place in the pipeline) issue the same calls; one that left out a call, added one or changed one is found by aligning
// its record with what most of its siblings did. This tells who was wrong where a communicator itself has no majority.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_PROGRAM_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

struct Divergence {
  enum class Type { kSkipped, kExtra, kChanged, kReordered };
  Type type = Type::kSkipped;
  int32_t rank = -1;            // into Bundle::ranks
  const Op* own = nullptr;      // kExtra, kChanged: the call that differs; kSkipped: the call made instead, may be null
  const Op* sibling = nullptr;  // what the siblings issued there
  int32_t sibling_rank = -1;
  int32_t siblings_agreeing = 0;  // ranks of the family that followed the reference
  int32_t family_size = 0;
  bool by_history = false;  // of two ranks in one role, this one left what both did in earlier steps
};

// At most one divergence a rank: its first. Only where the siblings form a clear reference, or where of two siblings
// one does what both have done before at that place.
std::vector<Divergence> FindDivergences(const Model& model);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_PROGRAM_H_
