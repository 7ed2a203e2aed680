// Combines the reports from NCCL's profiler interface with the recorded calls.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// Sets states and times of operations from their kernels, the rank's running network operations, and what the reports
// show about the accuracy of times. membership_of[i] is the index in rank->memberships of entry i of the ring's
// communicator table.
void ApplyProfiler(const ring::Snapshot& snapshot, const absl::flat_hash_map<uint32_t, uint32_t>& membership_of,
                   Rank* rank);

}  // namespace lockstep
