// What a stream is in although its record is gone: rings are short where waits are long.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_LOST_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_LOST_H_

#include <cstdint>

#include "analyzer/engine/facts/model.h"
#include "analyzer/model/bundle.h"

namespace lockstep {

// The oldest unfinished operation of a stream, known by the stream's tickets alone.
struct LostFront {
  bool lost = false;               // it is not among the rank's operations; else nothing below is set
  bool started = false;            // the GPU is in it
  uint32_t membership = kNoIndex;  // of the oldest operation of that stream that is recorded, into Rank::memberships
  bool exchange = false;           // and that one is a send or a receive
  // Number of the collective in the communicator of `membership`; kNone where the stream carries other things as well,
  // so that tickets do not tell it.
  int64_t seq = kNone;
};

// `rank` has its own or a ring's record (no framework's), `view` is the model's of it, `stream` an index into
// Rank::streams.
LostFront LostFrontOf(const Rank& rank, const RankView& view, uint32_t stream);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_LOST_H_
