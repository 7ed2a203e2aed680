// A viewer's facts beside the columns of an index (proto/view.proto), from the bundle and its verdict.
#ifndef LOCKSTEP_ANALYZER_VIEWDATA_FACTS_H_
#define LOCKSTEP_ANALYZER_VIEWDATA_FACTS_H_

#include "absl/status/statusor.h"
#include "analyzer/evidence/merged_stacks.h"
#include "analyzer/formats/lsi/reader.h"
#include "analyzer/model/bundle.h"
#include "proto/view.pb.h"

namespace lockstep {

// Pure, about linear in the size of the bundle. Ranks and communicators are in the bundle's order, which is the
// index's. Analyzes the bundle again for facts that a verdict does not hold; `verdict` becomes part of the facts and
// may come from other options.
ViewFacts BuildViewFacts(const Bundle& bundle, const Verdict& verdict);
// With the verdict of that analysis.
ViewFacts BuildViewFacts(const Bundle& bundle);

// Adds merged stacks, for ranks whose facts have none: those of threads with Python frames, or else all. The reasons
// for missing stacks go to facts->unknown.
void AddMergedStacks(const MergedStacks& merged, ViewFacts* facts);

// Reads the facts of an index as a hostile file. The result has a RankFacts for each rank, valid indexes, known enum
// values and ascending runs. FailedPrecondition: it holds none; DataLoss: damaged, make it again.
absl::StatusOr<ViewFacts> ReadViewFacts(const IndexReader& index);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_VIEWDATA_FACTS_H_
