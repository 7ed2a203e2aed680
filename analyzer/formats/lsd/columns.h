// Operations of a rank as the columns of a dump chunk.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "analyzer/model/bundle.h"
#include "proto/dump.pb.h"

namespace lockstep {

// Translates Op's string indexes (input_shape .. call_site) from the bundle to the file's TextTable, or back. kNoIndex
// stays.
struct TextIndexes {
  std::vector<uint32_t> strings, shapes;  // by index in the bundle (or the file)
};

// `ops` are some of the rank's operations.
OpColumns EncodeOps(const Rank& rank, absl::Span<const Op> ops, const TextIndexes& texts);

// Appends the columns' operations to rank->ops. Copies the indexes of communicators, threads and streams from the
// file without a check. Translates string indexes; those out of range become none. Fails if a list has neither 0 nor
// `count` entries; *rank is then unchanged.
absl::Status DecodeOps(const OpColumns& columns, const TextIndexes& texts, Rank* rank);

}  // namespace lockstep
