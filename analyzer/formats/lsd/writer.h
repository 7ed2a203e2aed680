// Writes one node's ranks as a .lsd dump (docs/dump-file.md).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "analyzer/model/bundle.h"
#include "proto/dump.pb.h"

namespace lockstep {

// Writes the ranks `rank_indexes` (indexes into bundle.ranks) to a temporary file next to `path`, syncs it and renames
// it. Returns FailedPrecondition for ranks with operations that were not loaded. On error, removes the temporary file
// and leaves `path` unchanged.
absl::Status WriteLsd(const Bundle& bundle, const std::vector<size_t>& rank_indexes, const DumpHeader& header,
                      const std::string& path);

}  // namespace lockstep
