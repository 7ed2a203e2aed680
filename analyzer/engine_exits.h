// Processes that ended because another one had: a framework's watchdog aborts ranks that wait for a dead one, launchers end
// the rest. Told by who waited for whom, never by the times of different hosts.
#ifndef LOCKSTEP_ANALYZER_ENGINE_EXITS_H_
#define LOCKSTEP_ANALYZER_ENGINE_EXITS_H_

#include <vector>

#include "analyzer/engine_model.h"

namespace lockstep {

// By rank index. True where a process that ended waited, directly or through others, for one that had ended, or was ended by a
// signal that launchers send. A crash or SIGKILL is never taken for a consequence of another rank's end.
std::vector<bool> FindConsequences(const Model& model);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_EXITS_H_
