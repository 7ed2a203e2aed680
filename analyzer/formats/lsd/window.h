// Which operations of a large job's dumps are loaded. Progress, memberships and hashes of every rank always are; of the
// operations, where there are too many to keep all, the newest of each rank, all that may still be under way, and older
// ones where the hashes show that members of a communicator, or ranks in the same role, called differently.
#ifndef LOCKSTEP_ANALYZER_FORMATS_LSD_WINDOW_H_
#define LOCKSTEP_ANALYZER_FORMATS_LSD_WINDOW_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/formats/format_reader.h"
#include "analyzer/formats/lsd/reader.h"

namespace lockstep {

struct LoadChoice {
  std::vector<std::vector<LsdPlan>> plans;  // by file, by rank of the file
  std::string note;                         // what was not loaded from the files, and how it was compared; empty:
                                            // nothing
};

// Operations recorded in all files: if they exceed limits.all, the functions below apply.
uint64_t CountOperations(const std::vector<std::unique_ptr<LsdFile>>& files);

// The ranks must be described (LsdFile::DescribeAll) if their operations exceed limits.all. The choice does not depend
// on the order of the files.
LoadChoice ChooseOperations(const std::vector<std::unique_ptr<LsdFile>>& files, const LoadLimits& limits);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_LSD_WINDOW_H_
