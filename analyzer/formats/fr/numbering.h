// Numbers of operations that the ranks of a group share, where a file numbers otherwise.
#ifndef LOCKSTEP_ANALYZER_FORMATS_FR_NUMBERING_H_
#define LOCKSTEP_ANALYZER_FORMATS_FR_NUMBERING_H_

#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/ops.h"

namespace lockstep::fr {

// torchcomms counts the operations of all groups of a process together, so that two members give one operation two
// numbers. Where a file's entries show that (their numbers have no gap, and those of its groups do), they are numbered
// by group. That needs the process's first entries: of a file that lost them nothing can be compared, so its operations
// are given up and a problem says so. Other files are left as they are.
void NumberByGroup(std::vector<RawOp>* raw, FileData* file);

}  // namespace lockstep::fr

#endif  // LOCKSTEP_ANALYZER_FORMATS_FR_NUMBERING_H_
