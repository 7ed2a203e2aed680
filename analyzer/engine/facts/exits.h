// Processes that ended because another one had: a framework's watchdog aborts ranks that wait for a dead one, launchers
// end the rest. Told by who waited for whom and by the order of ends on one host, never by the times of different
// hosts.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_EXITS_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_EXITS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/engine/facts/model.h"
#include "proto/verdict.pb.h"

namespace lockstep {

// By rank index. True where a process that ended waited, directly or through others, for one that had ended, or was
// ended by a signal that launchers send, or by a watchdog (see below), or gave up in a wait after another process of
// its host had crashed, with no error of its own GPU. A crash or SIGKILL is never taken for a consequence of another
// rank's end.
std::vector<bool> FindConsequences(const Model& model);

// A process that a watchdog ended: it aborted after one of its threads had been in an operation for a minute or more.
// Such an end is a consequence of what it waited for.
struct WatchdogEnd {
  int64_t waited_ns = -1;  // from the call of its oldest operation in flight to its end; -1: no watchdog ended it
  bool pytorch = false;    // PyTorch's, by its threads' names; else a framework's that is not known
};
WatchdogEnd EndedByWatchdog(const Model& model, size_t rank_index);

// Says in Verdict::not_the_cause whom watchdogs ended and after how long, and in the evidence of findings whose
// culprits are among them.
void SayWatchdogEnds(const Model& model, Verdict* verdict);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_EXITS_H_
