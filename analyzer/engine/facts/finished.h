// Of a collective that ends for all members or for none: the one member that is done with it while the others are in
// it.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_FINISHED_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_FINISHED_H_

#include <cstdint>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

// Into Bundle::ranks: the only member that completed collective `seq`, by its record or its counters, while two or more
// others have the operation in flight and no other member completed it; -1: no such member. A hung GPU would keep one
// member from completing the operation, not all members but one.
int32_t FinishedAlone(const Model& model, uint32_t comm, int64_t seq);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_FINISHED_H_
