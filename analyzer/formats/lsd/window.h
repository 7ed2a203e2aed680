// Chooses which operations of a large job's dumps are loaded. Progress, memberships and hashes of every rank are always
// loaded. If there are too many operations, only these are loaded: the newest of each rank, all that may still be in
// flight, and some older ones. The hashes show which: members of a communicator, or ranks with the same role, made
// different calls there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/formats/format_reader.h"
#include "analyzer/formats/lsd/reader.h"

namespace lockstep {

struct LoadChoice {
  std::vector<std::vector<LsdPlan>> plans;  // indexed by file and by rank of the file
  // What was not loaded, and how the rest was compared; empty if everything was loaded.
  std::string note;
};

// Number of operations in all files. If it exceeds limits.all, the functions below apply.
uint64_t CountOperations(const std::vector<std::unique_ptr<LsdFile>>& files);

// The ranks must be described (LsdFile::DescribeAll) if their operations exceed limits.all. The choice does not depend
// on the order of the files.
LoadChoice ChooseOperations(const std::vector<std::unique_ptr<LsdFile>>& files, const LoadLimits& limits);

}  // namespace lockstep
