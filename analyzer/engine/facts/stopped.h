// Finds processes that stopped on their own although their GPU has waiting work. Other ranks with the same role
// continued past that place, although their GPUs have at least the same unfinished work. So the process did not stop
// because of that work.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

struct StoppedHost {
  // A rank with the same role that continued, as an index into Bundle::ranks; -1 if none is known.
  int32_t witness = -1;
  int32_t witnesses = 0;     // number of such ranks
  const Op* next = nullptr;  // the first call of that rank that the stopped rank did not make
};

// Returns, for each rank index, where similar ranks continued although this rank stopped. Ranks in `distrusted` are not
// evidence, because their records do not show what their GPUs completed.
std::vector<StoppedHost> FindStoppedHosts(const Model& model, const std::vector<bool>& distrusted);

}  // namespace lockstep
