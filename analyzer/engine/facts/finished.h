// Of a collective that ends for all members or for none: the one member that is done with it while the others are in
// it.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_FINISHED_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_FINISHED_H_

#include <cstdint>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

// Into Bundle::ranks: the only member that completed collective `seq`, by its record or its counters, while two or more
// others hold the operation in flight and nobody else completed it; -1: there is none. A GPU that stands still keeps
// one member from an operation's end, not all but one.
int32_t FinishedAlone(const Model& model, uint32_t comm, int64_t seq);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_FINISHED_H_
