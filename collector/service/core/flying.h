// Finds the operations in flight of each communicator in the digests of a round, for `lockstep top`.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "analyzer/model/bundle.h"
#include "recorder/ring/calls.h"

namespace lockstep {

// A communicator's newest operation that is known to be unfinished.
struct Flying {
  ring::CallKind kind = ring::CallKind::kNone;
  int64_t sequence = -1;        // negative for sends and receives
  uint32_t started = 0;         // number of ranks whose GPU is known to have reached the operation
  bool start_recorded = false;  // if false, ignore `started`
};
// Returns the operations, indexed by the communicator's ID, in time linear in the operations of the bundle.
absl::flat_hash_map<uint64_t, Flying> FlyingOf(const Bundle& bundle);

}  // namespace lockstep
