// The rings that a process left behind when it started another program with exec.
#pragma once

#include "recorder/ring/layout.h"

namespace lockstep::recorder {

// Marks rings in `folder` (an open folder) as replaced if they claim to belong to this process and to be still
// recording. exec keeps PID and start time, so only the process itself can decide this. `own` is the new ring's
// complete header; `name` is its file name. Examines a limited number of this user's files, and never follows a link.
void MarkReplacedRings(long folder, const char* name, const ring::Header& own) noexcept;

}  // namespace lockstep::recorder
