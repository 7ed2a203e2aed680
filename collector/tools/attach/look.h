// The activity of a job's ranks, from two samples of each process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "collector/tools/attach/discovery.h"

namespace lockstep {

// Returns one entry for each of `job.ranks`, then for each of `job.ended`: stacks of all threads, taken twice, thread
// states, and CPU and I/O in between. `host` is the name of this host. Keeps the data that arrived within `limit_ns`.
// Stops each thread for less than 50 ms each time.
std::vector<Rank> LookAtRanks(const FoundJob& job, const std::string& host, int64_t limit_ns);

}  // namespace lockstep
