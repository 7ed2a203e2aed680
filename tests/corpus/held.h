// Whether overwritten rings still hold the evidence of the culprit. Decided from the simulator's run and the written
// records, never from an analyzer's answer.
#ifndef LOCKSTEP_TESTS_CORPUS_HELD_H_
#define LOCKSTEP_TESTS_CORPUS_HELD_H_

#include <memory>
#include <vector>

#include "tests/corpus/scenario.h"

namespace lockstep::corpus {

// For a fault of the program in a job with short rings: makes the truth "not identifiable" if no deciding record and no
// counter is left. `base` are the programs before the fault. Other faults are unaffected: a stuck rank is behind its
// newest records, and its process is observed directly.
void SettleOverwritten(const Request& request, const std::vector<std::shared_ptr<const Program>>& base,
                       Outcome* outcome);

}  // namespace lockstep::corpus

#endif  // LOCKSTEP_TESTS_CORPUS_HELD_H_
