// Limits for numbers in untrusted files. A number beyond these limits is damaged and counts as not recorded, so
// differences and sums of a few numbers fit into 64 bits.
#pragma once

#include "analyzer/model/bundle.h"

namespace lockstep {

// Replaces all times and counts of the rank that are beyond the limits.
void BoundNumbers(Rank* rank);

}  // namespace lockstep
