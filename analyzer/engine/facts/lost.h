// Finds what a stream is executing although its record was overwritten. During a long wait, a short ring is
// overwritten.
#pragma once

#include <cstdint>

#include "analyzer/engine/facts/model.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// The oldest unfinished operation of a stream, known only from the stream's tickets.
struct LostFront {
  bool lost = false;     // the operation is not among the rank's operations; if false, the other fields are not set
  bool started = false;  // the GPU has started the operation
  // Communicator of the oldest recorded operation of that stream, as an index into Rank::memberships.
  uint32_t membership = kNoIndex;
  bool exchange = false;  // that oldest recorded operation is a send or a receive
  // Number of the collective in the communicator of `membership`; kNone if the stream also carries other work, because
  // tickets then do not identify it.
  int64_t seq = kNone;
};

// `rank` has Lockstep's own record (not a framework's), `view` is the model's view of it, and `stream` an index into
// Rank::streams.
LostFront LostFrontOf(const Rank& rank, const RankView& view, uint32_t stream);

}  // namespace lockstep
