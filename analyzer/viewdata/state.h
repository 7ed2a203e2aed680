// The state of one cell of a picture. The number is the severity: of several cells in one pixel the highest is drawn,
// so that a single bad one is never lost. A proven fault outranks "no data": a hundred silent hosts must not hide the
// one missing rank.
#ifndef LOCKSTEP_ANALYZER_VIEWDATA_STATE_H_
#define LOCKSTEP_ANALYZER_VIEWDATA_STATE_H_

#include <cstdint>

namespace lockstep {

enum class ViewState : uint8_t {
  kOutside = 0,  // before the first or after the last operation
  kCompleted = 1,
  kOverwritten = 2,  // issued; its record is gone or was not read
  kIssued = 3,       // issued; the GPU's progress is not recorded
  kEnqueued = 4,     // on the stream and not completed; the GPU is not known to have reached it
  kStarted = 5,      // the GPU is in it
  kWaiting = 6,      // in flight while a member is missing, or while the analysis finds the rank waiting
  kNoData = 7,       // this rank is unknown
  kFailed = 8,       // the call returned an error
  kMismatch = 9,     // the member made a different call from its peers
  kMissing = 10,     // peers called, this rank did not
  kCount = 11,
};

// "completed", "never enqueued": the same words in every report and picture.
const char* ViewStateName(ViewState state);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_VIEWDATA_STATE_H_
