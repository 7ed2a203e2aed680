// Which of the processes that ended are causes, and which ended because the job was ending.
#ifndef LOCKSTEP_COLLECTOR_ENDS_H_
#define LOCKSTEP_COLLECTOR_ENDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/bundle.h"

namespace lockstep {

struct EndingFacts {
  // A launcher of the job's own (torchrun, mpirun) stands above the ranks: it kills the others when one fails.
  bool launcher = false;
  // When lockstep, or the user through it, began to end the job; 0: nobody did.
  int64_t ending_since_ns = 0;
};

// Sets Process::consequence. Order is by the end's monotonic time:
//  - whatever ended after ending_since_ns is a consequence;
//  - of bad ends (a signal, a status other than 0, or not known how) the first is a cause;
//  - later ones are consequences where they look like one: under a launcher every one but a crash signal (SIGSEGV and
//  its
//    like) more than a second later; without a launcher a status other than 0 and SIGABRT, the way programs give up
//    when a peer is gone. Nobody else kills ranks there, so another SIGKILL is a cause of its own.
void MarkConsequences(const EndingFacts& facts, const std::vector<Process*>& processes);

// "exited 0", "killed by signal 9 (Killed)", "running", "gone".
std::string EndText(const Process& process);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_ENDS_H_
