// Operations of a rank as the columns of a dump chunk.
#ifndef LOCKSTEP_ANALYZER_FORMATS_LSD_COLUMNS_H_
#define LOCKSTEP_ANALYZER_FORMATS_LSD_COLUMNS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "analyzer/model/bundle.h"
#include "proto/dump.pb.h"

namespace lockstep {

// Translates Op's text indexes (input_shape .. call_site) to the file's TextTable; kNoIndex stays none.
struct TextIndexes {
  std::vector<uint32_t> strings, shapes;  // from the bundle's (or the file's) index
};

// `ops` are some of the rank's operations.
OpColumns EncodeOps(const Rank& rank, absl::Span<const Op> ops, const TextIndexes& texts);

// Appends the columns' operations to rank->ops. Indexes of communicators, threads and streams are as the file has them,
// not checked; text indexes are translated, those out of range become none. Error when a list has neither 0 nor `count`
// entries; *rank is then unchanged.
absl::Status DecodeOps(const OpColumns& columns, const TextIndexes& texts, Rank* rank);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_FORMATS_LSD_COLUMNS_H_
