// Own work where a record holds no whole steps: what lies ahead of a collective, against what lies ahead of the same
// one elsewhere. Ranks in one role run one program, so that a number of a communicator is the same place in it as that
// number of a sibling communicator. Whatever part of a step the rings still hold, like is compared with like.
#ifndef LOCKSTEP_ANALYZER_ENGINE_SLOW_PLACES_H_
#define LOCKSTEP_ANALYZER_ENGINE_SLOW_PLACES_H_

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/timing.h"
#include "analyzer/engine/slow/pace.h"

namespace lockstep {

// A rank without whole steps against others in its role.
struct PlacePace {
  uint32_t places = 0;     // with work ahead of them that at least two others hold as well; 0: nothing to compare
  double ratio = 1;        // of its work to theirs, in the middle of these places
  double least_ratio = 1;  // exceeded in three of four
  int64_t own_ns = 0, others_ns = 0;  // its work and theirs, all these places together
  double by_chance = 1;  // at most: that any rank would be longer at so many of its places if that fell on all alike
};

// By rank, as Bundle::ranks. `noise_ns`, by rank: how exact its times are.
std::vector<PlacePace> ComparePlaces(const Timing& timing, const Paces& paces, const std::vector<int64_t>& noise_ns);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_SLOW_PLACES_H_
