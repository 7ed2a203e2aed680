// Chooses which operations of a large job's dumps to load. Every rank's progress, memberships and hashes are always
// loaded. If there are too many operations, only these are loaded: each rank's newest, unfinished ones, the first that
// a rank issued and another member did not, and older ones where hashes differ. Hashes are compared among a
// communicator's members, between a send and its receive, and among ranks with the same role.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/formats/format_reader.h"
#include "analyzer/formats/lsd/reader.h"

namespace lockstep {

struct LoadChoice {
  std::vector<std::vector<LsdPlan>> plans;  // indexed by file, then by rank in the file
  // What was not loaded, and how it was compared; empty if everything was loaded.
  std::string note;
};

uint64_t CountOperations(const std::vector<std::unique_ptr<LsdFile>>& files);

// If the operations exceed limits.all, the ranks must be described (LsdFile::DescribeAll). The choice does not depend
// on the order of the files.
LoadChoice ChooseOperations(const std::vector<std::unique_ptr<LsdFile>>& files, const LoadLimits& limits);

}  // namespace lockstep
