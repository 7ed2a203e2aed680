// Joins own records and Flight Recorder dumps of one job in one bundle.
#ifndef LOCKSTEP_ANALYZER_LOAD_JOIN_FLIGHT_RECORDER_H_
#define LOCKSTEP_ANALYZER_LOAD_JOIN_FLIGHT_RECORDER_H_

#include "analyzer/model/bundle.h"

namespace lockstep {

// Adds `dumps`, as LoadFlightRecorder made it, to `own`, as BundleBuilder made it.
//
// Ranks are joined by their number; host names that contradict each other keep them apart. The own record is the base:
// progress, GPU marks and process state are its. The dumps add call sites, shapes and types of operations, names of
// communicators, what the framework saw complete where no mark tells, and operations older than the own ring holds.
// A rank with only one of the two stands with that, a dump's numbers translated into the own ones.
//
// Process groups are joined with communicators by their members, of several by name, and by their calls, which must
// agree in kind and size in the order of calls (join_calls.h). What does not fit, or fits in several ways, is a problem
// and is left out: never guessed. Clocks only ever speak against a join: the same call at other times is of another
// start of the job. Sends and receives are not joined, as the two sources number them in ways that cannot be compared.
void JoinFlightRecorder(const Bundle& dumps, Bundle* own);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_LOAD_JOIN_FLIGHT_RECORDER_H_
