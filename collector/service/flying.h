// Communicators with waiting members, from the digests of a round: for `lockstep top`.
#ifndef LOCKSTEP_COLLECTOR_SERVICE_FLYING_H_
#define LOCKSTEP_COLLECTOR_SERVICE_FLYING_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "analyzer/model/bundle.h"
#include "recorder/ring/calls.h"

namespace lockstep {

// The newest operation of a communicator that is known not to have finished.
struct Flying {
  ring::CallKind kind = ring::CallKind::kNone;
  int64_t sequence = -1;        // of sends and receives: negative
  uint32_t started = 0;         // ranks whose GPU is known to have reached it
  bool start_recorded = false;  // false: ignore `started`
};
// By communicator. Linear in the operations of the bundle.
absl::flat_hash_map<uint64_t, Flying> FlyingOf(const Bundle& bundle);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_SERVICE_FLYING_H_
