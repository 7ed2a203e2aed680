// Sequence numbers per group, for files that count all groups together.
#ifndef LOCKSTEP_ANALYZER_FORMATS_FR_NUMBERING_H_
#define LOCKSTEP_ANALYZER_FORMATS_FR_NUMBERING_H_

#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/ops.h"

namespace lockstep::fr {

// torchcomms counts the operations of all groups of a process together, so two members give one operation different
// numbers. Detects this from the entries: their numbers have no gaps, but the numbers within a group have. Then numbers
// each group from 1. That needs the first entries of the process: a file that lost them loses all its operations here,
// and gets a problem. Leaves other files unchanged.
void NumberByGroup(std::vector<RawOp>* raw, FileData* file);

}  // namespace lockstep::fr

#endif  // LOCKSTEP_ANALYZER_FORMATS_FR_NUMBERING_H_
