// Where the start of a job went: the making of its communicators, from the members' own entry and return times.
//
// One creation is one call that members must make together: the making of one root communicator, or one split of a
// parent, which makes a child for every colour at once and which ranks that get none (no colour) take part in too. A
// member's time in it is waiting until the last has entered, and work from then on. Nobody returns before the last has
// entered, so the times of different hosts are laid beside each other by that bound; the clock offsets of
// Verdict::clocks are used where they are there.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_STARTUP_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_STARTUP_H_

#include "analyzer/model/bundle.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Fills verdict->start_up where creations were recorded; else says in not_measured why there is nothing.
void ExplainStartUp(const Bundle& bundle, Verdict* verdict);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_STARTUP_H_
