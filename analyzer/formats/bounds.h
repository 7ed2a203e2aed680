// Numbers of files that nobody trusts. Beyond these limits a number is damaged, and counts as not recorded: so
// differences and sums of a few of them fit 64 bits.
#ifndef LOCKSTEP_ANALYZER_FORMATS_BOUNDS_H_
#define LOCKSTEP_ANALYZER_FORMATS_BOUNDS_H_

#include "analyzer/model/bundle.h"

namespace lockstep {

// Replaces all times and counts of the rank that are beyond the limits.
void BoundNumbers(Rank* rank);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_BOUNDS_H_
