// Decides what the record can show of a fault. The simulator decides, never an analyzer's answer: it runs the job again
// without the fault, and knows which ranks are in which operation.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/corpus/scenario.h"

namespace lockstep::corpus {

// Returns the ranks whose file is empty, missing or damaged.
std::set<int32_t> Unreadable(const Simulator& run, const DumpOptions& dump, bool fr);

// Returns ranks without readable data in operations that do not end. All other members that left data are in the
// operation, so no other record explains why it does not end.
std::set<int32_t> WaitedForUnseen(const Simulator& run, const std::set<int32_t>& unreadable);

// States, for a job in which two faults struck, which fault the record does not show because the other stopped the job
// first. `base` contains the programs before the first fault; `before_second` those before the second, if it is a
// program fault.
void SettleTwoFaults(const Request& request, const std::vector<std::shared_ptr<const Program>>& base,
                     const std::vector<std::shared_ptr<const Program>>& before_second, const SimOptions& options,
                     Outcome* outcome);

}  // namespace lockstep::corpus
