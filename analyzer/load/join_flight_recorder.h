// Joins Lockstep's own records and Flight Recorder dumps of one job in one bundle.
#pragma once

#include "analyzer/model/bundle.h"

namespace lockstep {

// Adds `dumps`, as created by LoadFlightRecorder, to `own`, as created by BundleBuilder.
//
// Ranks are joined by their number; contradictory host names keep them apart. The own record is the base and provides
// progress, GPU progress markers and process state. The dumps add call sites, shapes and types of operations, names of
// communicators, and operations older than those in the own ring. They also add completions that the framework saw and
// no mark shows. A rank with only one of the two keeps it, with a dump's numbers converted to own ones.
//
// Process groups are joined with communicators by their members, then by name. Their calls must also agree in kind and
// size, in the order of calls (join_calls.h). What does not match, or matches in several ways, becomes a problem and is
// left out; nothing is guessed. Clocks can only prevent a join: if one call has different times, the records belong to
// different starts of the job. Sends and receives are not joined, because the two sources number them in incomparable
// ways.
void JoinFlightRecorder(const Bundle& dumps, Bundle* own);

}  // namespace lockstep
