// Limits for numbers in untrusted files. A number beyond these limits is damaged and counts as not recorded.
// Differences and sums of a few numbers therefore fit into 64 bits.
#pragma once

#include "analyzer/model/bundle.h"

namespace lockstep {

// Replaces all of the rank's times and counts that are beyond the limits.
void BoundNumbers(Rank* rank);

}  // namespace lockstep
