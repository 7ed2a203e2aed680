// Assigns sequence numbers per group in files that number the operations of all groups together.
#pragma once

#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/ops.h"

namespace lockstep::fr {

// torchcomms numbers the operations of all of a process's groups together, so two members number one operation
// differently. That is the case if the numbers have no gaps although the entries belong to several groups. Then
// renumbers each group from 1. This needs the process's first entries: if a file has lost them, all its operations are
// removed and it gets a problem. Other files stay unchanged.
void NumberByGroup(std::vector<RawOp>* raw, FileData* file);

}  // namespace lockstep::fr
