// English for findings. The engine reports a Reason, a Detail and Rivals; only this folder makes sentences of them.
#ifndef LOCKSTEP_ANALYZER_WORDS_WORDS_H_
#define LOCKSTEP_ANALYZER_WORDS_WORDS_H_

#include "proto/verdict.pb.h"

namespace lockstep {

// Fills summary, advice, advice_steps, alternatives, tells_apart and refuted_by. Names from the job are not escaped:
// the printer of a sentence must do that.
void PutIntoWords(Finding* finding);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_WORDS_WORDS_H_
