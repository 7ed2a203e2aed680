// Processes that ended because another one had: a framework's watchdog aborts ranks that wait for a dead one, and
// launchers end the rest. The waits and the order of ends on one host show this, never the times of different hosts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/model.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Returns whether the process was in a wait for its GPU, or in a call, when it ended. The cells of its threads outlive
// it. False: no, or unknown.
bool EndedWaiting(const Rank& rank);

// Returns, for each rank index, whether a process ended because of another: it waited, directly or through others, for
// one that had ended. Or a launcher's signal or a watchdog (see below) ended it. Or it gave up in a wait after another
// process of its host crashed, without an error of its own GPU. A crash or SIGKILL never counts as a consequence.
std::vector<bool> FindConsequences(const Model& model);

// A process that a watchdog ended: it aborted after one of its threads had been in an operation for a minute or more.
// Its end is a consequence of what it waited for.
struct WatchdogEnd {
  // Time from the call of the oldest operation in flight to the process's end. -1: no watchdog ended the process.
  int64_t waited_ns = -1;
  bool pytorch = false;  // PyTorch's watchdog, by the names of threads; otherwise an unknown framework's
};
WatchdogEnd EndedByWatchdog(const Model& model, size_t rank_index);

// States in Verdict::ruled_out which processes watchdogs ended and after how long. Does the same in the evidence of
// findings whose culprits are among them.
void SayWatchdogEnds(const Model& model, Verdict* verdict);

}  // namespace lockstep
