// Limits for numbers in untrusted files, so that differences and sums of a few numbers fit into 64 bits.
#pragma once

#include "analyzer/model/bundle.h"

namespace lockstep {

// Treats times and counts beyond the limits as not recorded. Does not check hash checkpoints, streams, graphs and
// samples of the process.
void BoundNumbers(Rank* rank);

}  // namespace lockstep
