// English for findings. The engine says what it found as a Reason, a Detail and Rivals; this folder alone makes
// sentences of them.
#ifndef LOCKSTEP_ANALYZER_WORDS_WORDS_H_
#define LOCKSTEP_ANALYZER_WORDS_WORDS_H_

#include "proto/verdict.pb.h"

namespace lockstep {

// Fills summary, advice, advice_steps, alternatives, tells_apart and refuted_by. Names from the job are in them as they
// are: whoever prints a sentence makes it safe.
void PutIntoWords(Finding* finding);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_WORDS_WORDS_H_
