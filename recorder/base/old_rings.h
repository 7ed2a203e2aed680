// The rings that a process left behind when it started another program with exec.
#ifndef LOCKSTEP_RECORDER_BASE_OLD_RINGS_H_
#define LOCKSTEP_RECORDER_BASE_OLD_RINGS_H_

#include "recorder/ring/layout.h"

namespace lockstep::recorder {

// Marks the rings in `folder` (an open folder) that claim to belong to this process and to be still recording as
// replaced. exec keeps pid and start time, so only the process itself can decide this. `own` is the filled header of
// the new ring; `name` is its file name. Looks at a bounded number of this user's files, and never follows a link.
void MarkReplacedRings(long folder, const char* name, const ring::Header& own) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_BASE_OLD_RINGS_H_
