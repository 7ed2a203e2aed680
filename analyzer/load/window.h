// Which operations of a large job's dumps are loaded. Progress, memberships and hashes of every rank always are; of the
// operations, where there are too many to keep all, the newest of each rank, all that may still be under way, and older
// ones where the hashes show that members of a communicator, or ranks in the same role, called differently.
#ifndef LOCKSTEP_ANALYZER_LOAD_WINDOW_H_
#define LOCKSTEP_ANALYZER_LOAD_WINDOW_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/formats/lsd/reader.h"

namespace lockstep {

struct LoadLimits {
  uint64_t all = 8'000'000;      // so many operations in all are loaded as a whole
  uint64_t newest = 4'000'000;   // else so many, the newest, shared among the ranks
  uint64_t history = 2'000'000;  // and of the older ones up to so many
  uint32_t at_least = 32;        // of each rank
};

struct LoadChoice {
  std::vector<std::vector<LsdPlan>> plans;  // by file, by rank of the file
  std::string note;                         // what was left in the files and how it was compared; empty: nothing
};

// Operations recorded in all files: above limits.all the rest of this page is for them.
uint64_t CountOperations(const std::vector<std::unique_ptr<LsdFile>>& files);

// The ranks must be described (LsdFile::DescribeAll) where their operations are more than limits.all. The choice does
// not depend on the order of the files.
LoadChoice ChooseOperations(const std::vector<std::unique_ptr<LsdFile>>& files, const LoadLimits& limits);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_LOAD_WINDOW_H_
