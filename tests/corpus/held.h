// Whether rings that were overwritten still hold what tells who it was. From what the simulator executed and what would
// be written of it; never by what an analyzer answers.
#ifndef LOCKSTEP_TESTS_CORPUS_HELD_H_
#define LOCKSTEP_TESTS_CORPUS_HELD_H_

#include <memory>
#include <vector>

#include "tests/corpus/scenario.h"

namespace lockstep::corpus {

// Of a fault of the program in a job with short rings: makes the truth "not identifiable" where neither a record is
// left that decides, nor a counter. `base` are the programs before the fault. Does nothing to other faults: who stands
// still does so behind its newest records, and what its host and process do is read when the job is looked at.
void SettleOverwritten(const Request& request, const std::vector<std::shared_ptr<const Program>>& base,
                       Outcome* outcome);

}  // namespace lockstep::corpus

#endif  // LOCKSTEP_TESTS_CORPUS_HELD_H_
