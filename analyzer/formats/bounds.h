// Limits for numbers in untrusted files, so that differences and sums of a few numbers fit into 64 bits.
#pragma once

#include "analyzer/model/bundle.h"

namespace lockstep {

// Treats times and counts beyond the limits as not recorded. Does not check 64-bit numbers that are only compared, such
// as the tickets of dependencies.
void BoundNumbers(Rank* rank);

}  // namespace lockstep
