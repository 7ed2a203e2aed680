// Assigns sequence numbers per group in files that number the operations of all groups together.
#pragma once

#include <vector>

#include "analyzer/formats/fr/file.h"
#include "analyzer/formats/fr/ops.h"

namespace lockstep::fr {

// torchcomms numbers the operations of all of a process's groups together, so two members number one operation
// differently. Such numbers have no gaps although the entries belong to several groups. Renumbers each group from 1,
// which needs the process's first entries. If the file has lost these, removes its operations and adds a problem. Other
// files stay unchanged.
void NumberByGroup(std::vector<RawOp>* raw, FileData* file);

}  // namespace lockstep::fr
