// What a viewer shows beside the columns of an index (proto/view.proto), made from the bundle and its verdict.
#ifndef LOCKSTEP_ANALYZER_VIEWDATA_FACTS_H_
#define LOCKSTEP_ANALYZER_VIEWDATA_FACTS_H_

#include "absl/status/statusor.h"
#include "analyzer/evidence/merged_stacks.h"
#include "analyzer/formats/lsi/reader.h"
#include "analyzer/model/bundle.h"
#include "proto/view.pb.h"

namespace lockstep {

// Pure, about linear in what the bundle holds. Ranks and communicators in the bundle's order, which is the index's.
// Analyses the bundle once more for what a verdict does not hold; `verdict`, which stands in the facts, may be one of
// other options.
ViewFacts BuildViewFacts(const Bundle& bundle, const Verdict& verdict);
// With the verdict of that analysis.
ViewFacts BuildViewFacts(const Bundle& bundle);

// Stacks of ranks that came merged, for ranks of which the facts have none of their own: those of threads with Python
// frames, or else all. Why others have none goes to facts->unknown.
void AddMergedStacks(const MergedStacks& merged, ViewFacts* facts);

// The facts of an index, read as a hostile file: what is returned has a RankFacts for each of its ranks, every index
// inside of its table, every enum a known value, runs ascending. FailedPrecondition: it holds none; DataLoss: damaged,
// make it again.
absl::StatusOr<ViewFacts> ReadViewFacts(const IndexReader& index);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_VIEWDATA_FACTS_H_
