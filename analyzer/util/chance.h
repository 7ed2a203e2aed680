// Statistics of counts.
#ifndef LOCKSTEP_ANALYZER_UTIL_CHANCE_H_
#define LOCKSTEP_ANALYZER_UTIL_CHANCE_H_

#include <cmath>

namespace lockstep {

// Chernoff's bound: the highest chance that at least this share of so many events is of a kind whose expected share is
// `expected`. Shares are 0 to 1, `expected` above 0 and below 1.
inline double AtMostByChance(double events, double share, double expected) {
  if (share <= expected) return 1;
  const double rest = share < 1 ? (1 - share) * std::log((1 - share) / (1 - expected)) : 0;
  return std::exp(-events * (share * std::log(share / expected) + rest));
}

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_UTIL_CHANCE_H_
