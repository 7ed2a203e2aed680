// Joins Lockstep's own records and the Flight Recorder dumps of one job into one bundle.
#pragma once

#include "analyzer/model/bundle.h"

namespace lockstep {

// Adds `dumps`, as created by LoadFlightRecorder, to `own`, as created by BundleBuilder.
//
// Ranks are joined by number, unless their host names contradict each other. The own record is the base and provides
// progress, GPU progress markers and process state. The dumps add call sites, shapes and types of operations, and names
// of communicators. They also add operations older than those in the ring, and completions that no marker shows. Ranks
// with only one source are kept; a dump's sequence numbers are converted to Lockstep's.
//
// Process groups are joined with communicators by members, then by name. Their calls must also agree in kind and size,
// in call order (join_calls.h). Anything that does not match, or matches in several ways, is omitted and becomes a
// problem; nothing is guessed. Clocks can only prevent a join: if the two times of every shared call are more than 30 s
// apart, the records belong to different starts of the job. Sends and receives are not joined, because the two sources
// number them differently.
void JoinFlightRecorder(const Bundle& dumps, Bundle* own);

}  // namespace lockstep
