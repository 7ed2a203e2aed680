// Converts decoded rings into a Bundle: one rank per process, or per device if a process drives several.
#pragma once

#include <string>
#include <vector>

#include "analyzer/formats/merge.h"
#include "analyzer/model/bundle.h"
#include "recorder/ring/snapshot.h"

namespace lockstep {

struct RingInput {
  ring::Snapshot snapshot;
  std::string path;  // the ring's file, for messages
  Process process;   // the ring's process as observed from outside; Life::kUnknown if it was not observed
};

// Merges the rings into one bundle: communicators by identity, members by (process rank, member rank). If there are
// several generations of a job (restart counts), keeps only the newest; problems name the others.
Bundle BundleFromRings(std::vector<RingInput> rings);
// Adds the ranks and their problems to *builder. BundleBuilder::Finish merges them with ranks from other sources.
void AddRings(std::vector<RingInput> rings, BundleBuilder* builder);

}  // namespace lockstep
