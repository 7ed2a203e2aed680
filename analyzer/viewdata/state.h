// The state of one cell in a picture. The number is the severity: if several cells share a pixel, the highest is
// drawn, so a single bad cell is never lost. A proven fault outranks "no data", because a hundred silent hosts must
// not hide the one missing rank.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analyzer/model/bundle.h"
#include "analyzer/model/rank_set.h"
#include "proto/view.pb.h"

namespace lockstep {

enum class ViewState : uint8_t {
  kOutside = 0,  // before the first or after the last operation
  kCompleted = 1,
  kOverwritten = 2,  // issued, but its record was overwritten or not read
  kIssued = 3,       // issued; the GPU's progress is not recorded
  kEnqueued = 4,     // on the stream and not completed; the GPU may not have reached it
  kStarted = 5,      // the GPU is executing it
  kWaiting = 6,      // in flight while a member is missing, or while the analysis finds the rank waiting
  kNoData = 7,       // nothing is known about this rank
  kFailed = 8,       // the call returned an error
  kMismatch = 9,     // the member made a different call than its peers
  kMissing = 10,     // peers made the call, this rank did not
  kCount = 11,
};

// Returns "completed", "never enqueued": the same words in every report and picture.
const char* ViewStateName(ViewState state);
// Returns the state's meaning, for legends and tooltips: "peers made this call, but the rank did not".
const char* ViewStateMeaning(ViewState state);
// The state of a call that waiting peers have not made either, so its rank is not at fault.
constexpr const char* kNotCalledYet = "not called yet";
// Returns "waits", "in a cycle".
const char* WaitKindName(WaitClass::Kind kind);

// Returns the state in which an operation is drawn. `waits`: the rank certainly waits for peers in it.
ViewState StateOfOp(OpState state, bool waits);

// Returns the ranks whose call differs from the reference; all ranks if there is no reference.
Ranks OddRanks(const CallMismatch& mismatch);
// By communicator and sequence number: the odd ranks of a collective, whose cells are kMismatch.
using OddCalls = absl::flat_hash_map<std::pair<int32_t, int64_t>, Ranks>;
OddCalls OddCallsOf(const ViewFacts& facts);

}  // namespace lockstep
