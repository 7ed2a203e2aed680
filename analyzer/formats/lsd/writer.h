// Writes one node's ranks as a .lsd dump (docs/dump-file.md).
#ifndef LOCKSTEP_ANALYZER_FORMATS_LSD_WRITER_H_
#define LOCKSTEP_ANALYZER_FORMATS_LSD_WRITER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "analyzer/model/bundle.h"
#include "proto/dump.pb.h"

namespace lockstep {

// Writes the ranks `rank_indexes` (into bundle.ranks) with all data of a Rank to a temporary name beside `path`,
// fsyncs, renames. Refuses ranks whose history was not loaded in full. On error the temporary file is removed and
// `path` is unchanged.
absl::Status WriteLsd(const Bundle& bundle, const std::vector<size_t>& rank_indexes, const DumpHeader& header,
                      const std::string& path);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_LSD_WRITER_H_
