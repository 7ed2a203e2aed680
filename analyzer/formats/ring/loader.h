// Turns decoded rings into a Bundle: one Rank per process, or per device where one process drives several.
#ifndef LOCKSTEP_ANALYZER_FORMATS_RING_LOADER_H_
#define LOCKSTEP_ANALYZER_FORMATS_RING_LOADER_H_

#include <string>
#include <vector>

#include "analyzer/formats/merge.h"
#include "analyzer/model/bundle.h"
#include "recorder/ring/snapshot.h"

namespace lockstep {

struct RingInput {
  ring::Snapshot snapshot;
  std::string path;  // its file, for messages
  Process process;   // its process as observed from outside; Life::kUnknown if nobody looked
};

// Merges the rings into one bundle: communicators by identity, members by (process rank, member rank). Of several
// generations of one job (restart count) only the newest is kept; problems name the others.
Bundle BundleFromRings(std::vector<RingInput> rings);
// The first half: adds the ranks. BundleBuilder::Finish merges them with those of other sources.
void AddRings(std::vector<RingInput> rings, BundleBuilder* builder);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_RING_LOADER_H_
