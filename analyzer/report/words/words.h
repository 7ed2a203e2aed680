// English for findings. The engine reports a Reason, a Detail, Rivals and Evidence; only this folder turns them into
// sentences.
#pragma once

#include "proto/verdict.pb.h"

namespace lockstep {

// Fills summary, advice, advice_steps, alternatives, tells_apart, refuted_by, and the texts of culprits, chain and
// evidence. Names from the job are not escaped: whoever prints a sentence must escape them.
void PutIntoWords(Finding* finding);

// Returns whether the summary completes "rank 5: " instead of "rank 5 ".
bool SummaryHasSubject(const Finding& finding);

}  // namespace lockstep
