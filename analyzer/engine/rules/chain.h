// Finds the path from a cause to the ranks that wait because of it.
#pragma once

#include "analyzer/engine/facts/cause.h"
#include "analyzer/engine/facts/model.h"
#include "analyzer/engine/facts/waits.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Adds finding->chain, nearest victims first, and finding->victim_count. At each distance, one link represents all
// ranks that wait in the same kind of operation on communicators of one class. So sixteen pipelines need one line.
void AddChain(const Model& model, const WaitGraph& graph, const Cause& cause, Finding* finding);

}  // namespace lockstep
