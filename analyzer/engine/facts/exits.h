// Finds processes that ended because another one had: a framework's watchdog aborts ranks that wait for a dead one, and
// launchers end the rest. The evidence is the waits and the order of ends on one host, never the times of different
// hosts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/model.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Returns whether the process was waiting for its GPU, or was in a call, when it ended. The state of its threads in the
// ring outlives it. Also false if unknown.
bool EndedWaiting(const Rank& rank);

// Processes of one host that ended within this time may have been ended by one signal to all of them.
constexpr int64_t kEndedTogether = 50'000'000;

// Returns, for each rank index, whether the process ended because of another. It waited, directly or through others,
// for one that had ended; or a launcher's signal or a watchdog (see below) ended it. Or it gave up waiting after
// another process of its host crashed, and its own GPU reported no error. A crash never counts as a consequence.
// SIGKILL does only if a launcher killed what was left of the job, or if the process waited while another of its host
// crashed.
std::vector<bool> FindConsequences(const Model& model);

// The end of a process by a watchdog. The process aborted after one of its threads had been in an operation for at
// least a minute. The process ended because of what it waited for.
struct WatchdogEnd {
  // Time from the call of the oldest operation in flight to the process's end. -1 if no watchdog ended the process.
  int64_t waited_ns = -1;
  bool pytorch = false;  // PyTorch's watchdog, according to the names of threads; otherwise an unknown framework's
};
WatchdogEnd EndedByWatchdog(const Model& model, size_t rank_index);

// Adds to Verdict::ruled_out which processes were ended by watchdogs, and after how long. Adds the same to the evidence
// of findings whose culprits are among them.
void SayWatchdogEnds(const Model& model, Verdict* verdict);

}  // namespace lockstep
