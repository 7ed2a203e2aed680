// Ranks that counted other sends and receives than their siblings. Counters outlive the records of what they count: where a ring no
// longer holds the calls in question, they still show who made one more, one less, or one with another peer.
#ifndef LOCKSTEP_ANALYZER_ENGINE_COUNTS_H_
#define LOCKSTEP_ANALYZER_ENGINE_COUNTS_H_

#include <cstdint>
#include <vector>

#include "analyzer/engine_model.h"

namespace lockstep {

// Into Model::ranks, ascending. Compared are ranks in one role (the same kinds of communicators, the same place in those that carry
// sends) that have issued equally many collectives on each: they stand at one place of one program. Only where most of at least three
// agree.
std::vector<int32_t> FindOddlyCounted(const Model& model);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_COUNTS_H_
