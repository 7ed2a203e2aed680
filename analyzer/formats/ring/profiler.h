// Combines the reports from NCCL's profiler interface with the recorded calls.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// Sets states and times of operations from their kernels, and the rank's running network operations. `membership_of`:
// indexes into `rank->memberships`, by index in the ring's communicator table.
void ApplyProfiler(const ring::Snapshot& snapshot, const absl::flat_hash_map<uint32_t, uint32_t>& membership_of,
                   Rank* rank);

}  // namespace lockstep
