#include "analyzer/viewdata/state.h"

namespace lockstep {

const char* ViewStateName(ViewState state) {
  switch (state) {
    case ViewState::kOutside: return "no operation";
    case ViewState::kCompleted: return "completed";
    case ViewState::kOverwritten: return "overwritten";
    case ViewState::kIssued: return "issued, GPU not recorded";
    case ViewState::kEnqueued: return "enqueued";
    case ViewState::kStarted: return "started";
    case ViewState::kWaiting: return "waiting for peers";
    case ViewState::kNoData: return "no data";
    case ViewState::kFailed: return "failed";
    case ViewState::kMismatch: return "mismatch";
    case ViewState::kMissing: return "never enqueued";
    case ViewState::kCount: break;
  }
  return "unknown";
}

const char* ViewStateMeaning(ViewState state) {
  switch (state) {
    case ViewState::kMissing: return "peers made this call, but the rank did not";
    case ViewState::kMismatch: return "the rank made a different call than its peers";
    case ViewState::kFailed: return "the call returned an error";
    case ViewState::kNoData: return "nothing is known about this rank; it may be healthy";
    case ViewState::kWaiting: return "in flight, delayed by another member of the communicator";
    case ViewState::kStarted: return "the GPU is executing the operation";
    case ViewState::kEnqueued: return "on the stream, not completed";
    case ViewState::kIssued: return "the GPU's progress is not recorded";
    case ViewState::kOverwritten: return "issued; its record was overwritten or not read";
    case ViewState::kCompleted: return "the GPU has finished the operation";
    default: return "";
  }
}

const char* WaitKindName(WaitClass::Kind kind) {
  switch (kind) {
    case WaitClass::HEALTHY: return "continues";
    case WaitClass::VICTIM: return "waits";
    case WaitClass::CAUSE: return "cause";
    case WaitClass::IN_CYCLE: return "in a cycle";
    case WaitClass::NO_DATA: return "no data";
    default: return "";
  }
}

ViewState StateOfOp(OpState state, bool waits) {
  switch (state) {
    case OpState::kUnknown:
    case OpState::kQueued:  // the group is open, so it waits for its own process
    case OpState::kCaptured: return ViewState::kIssued;
    case OpState::kEntered: return waits ? ViewState::kWaiting : ViewState::kIssued;
    case OpState::kEnqueued:
    case OpState::kIncomplete: return waits ? ViewState::kWaiting : ViewState::kEnqueued;
    case OpState::kStarted: return waits ? ViewState::kWaiting : ViewState::kStarted;
    case OpState::kCompleted: return ViewState::kCompleted;
    case OpState::kFailed: return ViewState::kFailed;
  }
  return ViewState::kIssued;
}

Ranks OddRanks(const CallMismatch& mismatch) {
  Ranks odd;
  for (const CallMismatch::Group& group : mismatch.groups()) {
    if (!group.reference()) odd.Unite(Ranks::Of(group.ranks()));
  }
  return odd;
}

OddCalls OddCallsOf(const ViewFacts& facts) {
  OddCalls calls;
  for (const CallMismatch& mismatch : facts.mismatches()) {
    if (!mismatch.point_to_point()) calls[{mismatch.comm(), mismatch.sequence()}].Unite(OddRanks(mismatch));
  }
  return calls;
}

}  // namespace lockstep
