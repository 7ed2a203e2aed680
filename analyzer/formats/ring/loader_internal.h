// For loaders that mix rings with other sources.
#ifndef LOCKSTEP_ANALYZER_FORMATS_RING_LOADER_INTERNAL_H_
#define LOCKSTEP_ANALYZER_FORMATS_RING_LOADER_INTERNAL_H_

#include <vector>

#include "analyzer/formats/merge.h"
#include "analyzer/formats/ring/loader.h"

namespace lockstep {

// BundleFromRings in two steps: adds the ranks, BundleBuilder::Finish merges them.
void AddRings(std::vector<RingInput> rings, BundleBuilder* builder);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_RING_LOADER_INTERNAL_H_
