// What the record can show of a fault. Decided from the simulator: by running the job again without the fault, and by
// which ranks are in which operation. Never from an analyzer's answer.
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

// Ranks without readable data in operations that do not end, if all other members that left data are in the operation:
// no other record explains why it does not end.
std::set<int32_t> WaitedForUnseen(const Simulator& run, const std::set<int32_t>& unreadable);

// For a job with two faults that both struck: sets in the truth which of them the record does not show, because the
// other one stopped the job first. `base` are the programs before the first fault; `before_second` those before the
// second if it is one of the program, else empty.
void SettleTwoFaults(const Request& request, const std::vector<std::shared_ptr<const Program>>& base,
                     const std::vector<std::shared_ptr<const Program>>& before_second, const SimOptions& options,
                     Outcome* outcome);

}  // namespace lockstep::corpus

#endif  // LOCKSTEP_TESTS_CORPUS_SHOWN_H_
