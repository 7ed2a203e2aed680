// The way from a cause to those that wait because of it.
#ifndef LOCKSTEP_ANALYZER_ENGINE_RULES_CHAIN_H_
#define LOCKSTEP_ANALYZER_ENGINE_RULES_CHAIN_H_

#include "analyzer/engine/facts/model.h"
#include "analyzer/engine/facts/waits.h"
#include "analyzer/engine/rules/causes.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Adds finding->chain, nearest victims first, and finding->victim_count. At each distance, ranks that wait in the same
// kind of operation on sibling communicators are one link: sixteen pipelines are one line, not sixteen.
void AddChain(const Model& model, const WaitGraph& graph, const Cause& cause, Finding* finding);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_RULES_CHAIN_H_
