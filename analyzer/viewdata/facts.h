// The facts that a viewer needs in addition to the columns of an index (proto/view.proto), from the bundle and its
// verdict.
#pragma once

#include "absl/status/statusor.h"
#include "analyzer/evidence/merged_stacks.h"
#include "analyzer/formats/lsi/reader.h"
#include "analyzer/model/bundle.h"
#include "proto/view.pb.h"

namespace lockstep {

// A pure function; takes time roughly linear in the size of the bundle. Ranks and communicators are in the bundle's
// order, which is also the index's. Analyzes the bundle again for facts that a verdict does not contain. `verdict`
// becomes part of the facts; it may be from an analysis with other options.
ViewFacts BuildViewFacts(const Bundle& bundle, const Verdict& verdict);
// Like the function above, but computes the verdict itself.
ViewFacts BuildViewFacts(const Bundle& bundle);

// Sets report and report_text: the lines of `lockstep analyze` in parts, each with its finding. Pure.
void SetReport(const Bundle& bundle, const Verdict& verdict, ViewFacts* facts);

// Adds merged stacks for ranks whose facts have none: those of threads with Python frames, otherwise all of them. Adds
// the reasons for missing stacks to facts->unknown.
void AddMergedStacks(const MergedStacks& merged, ViewFacts* facts);

// Reads an index's facts as an untrusted file. The result has a RankFacts for each rank, valid indexes, known enum
// values and ascending runs. FailedPrecondition if the index has no facts; DataLoss if it is damaged and must be
// created again.
absl::StatusOr<ViewFacts> ReadViewFacts(const IndexReader& index);

}  // namespace lockstep
