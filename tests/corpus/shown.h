// What the record can show of a fault, told by what the simulator executed: by running the job again without the fault,
// and by who stands in what. Never by what an analyzer answers.
#ifndef LOCKSTEP_TESTS_CORPUS_SHOWN_H_
#define LOCKSTEP_TESTS_CORPUS_SHOWN_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/corpus/scenario.h"

namespace lockstep::corpus {

// Ranks whose file holds nothing, does not exist, or is damaged.
std::set<int32_t> Unreadable(const Simulator& run, const DumpOptions& dump, bool fr);

// Ranks without readable data that stand between others and what these are in: all other members that left data are in
// it, so nobody else's record explains why it does not end.
std::set<int32_t> WaitedForUnseen(const Simulator& run, const std::set<int32_t>& unreadable);

// Two faults were put into a job and both struck. Says in the truth which of them the record does not show, because the
// other one stopped the job before anybody's record could differ. `base` are the programs before the first fault,
// `before_second` those before the second where it is one of the program, else empty.
void SettleTwoFaults(const Request& request, const std::vector<std::shared_ptr<const Program>>& base,
                     const std::vector<std::shared_ptr<const Program>>& before_second, const SimOptions& options,
                     Outcome* outcome);

}  // namespace lockstep::corpus

#endif  // LOCKSTEP_TESTS_CORPUS_SHOWN_H_
