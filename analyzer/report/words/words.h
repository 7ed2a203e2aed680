// English for findings. The engine reports a Reason, a Detail, Rivals and Evidence; only this folder turns them into
// sentences.
#pragma once

#include <string>
#include <vector>

#include "proto/verdict.pb.h"

namespace lockstep {

// A part of a sentence. A short report may move it, without its joint, to a line of its own.
struct Clause {
  std::string joint;  // what connects it to the clause before: "; ", ": ", ", "
  std::string text;
  bool repeated = false;  // another row contains it, too
};
std::string Joined(const std::vector<Clause>& clauses);

// Fills summary, advice, advice_steps, alternatives, tells_apart, refuted_by, and the texts of culprits, chain and
// evidence. Names from the job are not escaped: escape the sentences before printing.
void PutIntoWords(Finding* finding);

// Returns the clauses of the summary. The first one describes what happened.
std::vector<Clause> SummaryClauses(const Finding& finding);

// Returns whether the summary completes "rank 5: " instead of "rank 5 ".
bool SummaryHasSubject(const Finding& finding);

}  // namespace lockstep
