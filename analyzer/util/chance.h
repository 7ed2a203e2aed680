// Statistics of counts.
#pragma once

#include <cmath>

namespace lockstep {

// Chernoff's bound: the maximum probability that at least `share` of the events are of a kind whose expected share is
// `expected`. Shares are 0 to 1; `expected` is above 0 and below 1.
inline double AtMostByChance(double events, double share, double expected) {
  if (share <= expected) return 1;
  const double rest = share < 1 ? (1 - share) * std::log((1 - share) / (1 - expected)) : 0;
  return std::exp(-events * (share * std::log(share / expected) + rest));
}

}  // namespace lockstep
