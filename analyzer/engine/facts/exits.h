// Finds processes that ended because another process had: a framework's watchdog aborts ranks that wait for a dead
// rank, and launchers end the rest. The evidence is the waits and the order of ends on one host, never the times of
// different hosts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/model.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// Returns whether the process was waiting for its GPU, or was in a call, when it ended. The state of its threads in the
// ring outlives it. False if unknown.
bool EndedWaiting(const Rank& rank);

// One signal may have ended all processes of a host that ended within this time.
constexpr int64_t kEndedTogether = 50'000'000;

// Returns, for each rank index, whether the process ended because of another. That is so if it waited, directly or
// through others, for a process that had ended, or directly for a rank without data. It is also so if a watchdog ended
// it (see below), or a launcher's signal that did not end all processes. The third case is a process that was waiting
// when it ended, after another process of its host had crashed or ended in its own code, and whose own GPU reported no
// error. A crash never counts as a consequence. SIGKILL counts as one only if a launcher killed the rest of the job, or
// if another process of the host crashed more than kEndedTogether before a waiting process.
std::vector<bool> FindConsequences(const Model& model);

// The end of a process by a watchdog: a waiting process died of SIGABRT at least a minute after it entered its oldest
// operation in flight.
struct WatchdogEnd {
  // Time from that entry to the process's end. -1 if no watchdog ended the process.
  int64_t waited_ns = -1;
  bool pytorch = false;  // PyTorch's watchdog, according to the names of threads; otherwise an unknown framework's
};
WatchdogEnd EndedByWatchdog(const Model& model, size_t rank_index);

// Adds to Verdict::ruled_out which processes were ended by watchdogs, and after how long. Adds the same to the evidence
// of findings that name such a process.
void SayWatchdogEnds(const Model& model, Verdict* verdict);

}  // namespace lockstep
