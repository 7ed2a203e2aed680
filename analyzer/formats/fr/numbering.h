// Assigns sequence numbers per group in files that count all groups together.
#pragma once

#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/ops.h"

namespace lockstep::fr {

// torchcomms counts the operations of all groups of a process together, so two members give one operation different
// numbers. The entries show this if their numbers have gaps within each group but none overall. Then each group is
// numbered from 1. That needs the first entries of the process: if a file lost them, all its operations are removed and
// it gets a problem. Leaves other files unchanged.
void NumberByGroup(std::vector<RawOp>* raw, FileData* file);

}  // namespace lockstep::fr
