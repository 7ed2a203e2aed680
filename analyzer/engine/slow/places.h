// Compares the own work (pace.h) of ranks whose records contain no complete steps: the work before a collective is
// compared with the work before the same collective on other ranks. Ranks with the same role run the same program. So
// collectives with the same number, on communicators of one class, are at the same place in that program. This works
// for any part of a step that the rings still contain.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/timing.h"
#include "analyzer/engine/slow/pace.h"

namespace lockstep {

// A rank without complete steps, compared with others with its role.
struct PlacePace {
  uint32_t places = 0;                // places with work that at least two others also have; 0 if fewer than six
  double ratio = 1;                   // median over these places of its work divided by theirs
  double least_ratio = 1;             // three of four places exceed this ratio
  int64_t own_ns = 0, others_ns = 0;  // its work and theirs, summed over these places
  double by_chance = 1;  // upper limit of the probability that chance makes any rank slower at this many places
};

// Indexed like Bundle::ranks. `noise_ns` is the accuracy of each rank's times.
std::vector<PlacePace> ComparePlaces(const Timing& timing, const Paces& paces, const std::vector<int64_t>& noise_ns);

}  // namespace lockstep
