// The rings that a process left behind when it became another program.
#ifndef LOCKSTEP_RECORDER_BASE_OLD_RINGS_H_
#define LOCKSTEP_RECORDER_BASE_OLD_RINGS_H_

#include "recorder/ring/layout.h"

namespace lockstep::recorder {

// exec keeps pid and start time, so only the process itself can tell: marks the rings in `folder` (an open folder) that
// say to be this very process's and still recording as replaced. `own` is the header of the new ring, filled; `name`
// its file's name. Looks at a bounded number of files, of this user only, and never follows a link.
void MarkReplacedRings(long folder, const char* name, const ring::Header& own) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_BASE_OLD_RINGS_H_
