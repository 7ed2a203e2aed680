// What the ranks of a job are doing, as two looks at each of their processes show it.
#ifndef LOCKSTEP_COLLECTOR_ATTACH_LOOK_H_
#define LOCKSTEP_COLLECTOR_ATTACH_LOOK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "collector/attach/discovery.h"

namespace lockstep {

// Of each of `job.ranks`, then of each of `job.ended`: stacks of all threads twice, thread states, CPU and I/O in
// between. `host` is the name of this one. What is there after `limit_ns` is kept. Each thread is stopped for under 50
// ms a look.
std::vector<Rank> LookAtRanks(const FoundJob& job, const std::string& host, int64_t limit_ns);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_ATTACH_LOOK_H_
