// Ranks that run different code: versions of NCCL and Python, libraries compared by build id, Python files by hash.
#pragma once

#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Sets Verdict::code. Compares only what was read from at least two ranks. A rank whose value is unknown is in no
// group.
void SetCodeDifferences(const Bundle& bundle, Verdict* verdict);

// Returns a sentence for each difference: "NCCL 2.27.3 on ranks 8-15 (n2), 2.28.9 on the 56 others".
std::vector<std::string> CodeLines(const Verdict& verdict);

}  // namespace lockstep
