// Computes how long each part of the job's start took, from the entry and return times of the calls that create
// communicators.
//
// One creation is one call that members must make together: the creation of one root communicator, or one split of a
// parent. A split creates a child for every color at once, and ranks without a color take part, too. A member waits
// until the last member has entered, and only then does its own work. Times use Verdict::clocks, which must be set.
#pragma once

#include "analyzer/engine/facts/model.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Fills verdict->start_up if creations were recorded; otherwise adds CREATIONS to `unmeasured`.
void ExplainStartUp(const Model& model, Verdict* verdict);

}  // namespace lockstep
