// What a viewer shows beside the columns of an index (proto/view.proto), made from the bundle and its verdict.
#ifndef LOCKSTEP_ANALYZER_VIEW_FACTS_H_
#define LOCKSTEP_ANALYZER_VIEW_FACTS_H_

#include "analyzer/bundle.h"
#include "proto/view.pb.h"

namespace lockstep {

// Pure. Ranks and communicators in the bundle's order, which is the index's.
ViewFacts BuildViewFacts(const Bundle& bundle, const Verdict& verdict);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_VIEW_FACTS_H_
