// The activity of a job's ranks, from two samples of each process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "collector/tools/attach/discovery.h"

namespace lockstep {

// Returns one entry for each of `job.ranks`, then for each of `job.ended`, with stacks of all threads from two samples,
// thread states, CPU and I/O. `host` is the name of this host. Keeps the data that arrived within `limit_ns`. Each
// sample stops a thread for less than 50 ms.
std::vector<Rank> LookAtRanks(const FoundJob& job, const std::string& host, int64_t limit_ns);

}  // namespace lockstep
