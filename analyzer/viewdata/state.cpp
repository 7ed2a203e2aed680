#include "analyzer/viewdata/state.h"

namespace lockstep {

const char* ViewStateName(ViewState state) {
  switch (state) {
    case ViewState::kOutside:
      return "no operation";
    case ViewState::kCompleted:
      return "completed";
    case ViewState::kOverwritten:
      return "overwritten";
    case ViewState::kIssued:
      return "issued, GPU not recorded";
    case ViewState::kEnqueued:
      return "enqueued";
    case ViewState::kStarted:
      return "started";
    case ViewState::kWaiting:
      return "waiting for peers";
    case ViewState::kNoData:
      return "no data";
    case ViewState::kFailed:
      return "failed";
    case ViewState::kMismatch:
      return "mismatch";
    case ViewState::kMissing:
      return "never enqueued";
    case ViewState::kCount:
      break;
  }
  return "unknown";
}

}  // namespace lockstep
