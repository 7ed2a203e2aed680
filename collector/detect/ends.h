// Separates ended processes into causes and consequences of the job's end.
#ifndef LOCKSTEP_COLLECTOR_DETECT_ENDS_H_
#define LOCKSTEP_COLLECTOR_DETECT_ENDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep {

struct EndingFacts {
  // The job has its own launcher (torchrun, mpirun) above the ranks: it kills the others when one fails.
  bool launcher = false;
  // When lockstep, or the user through it, began to end the job; 0: not.
  int64_t ending_since_ns = 0;
};

// Sets Process::consequence, of one host's processes. Order is by the end's monotonic time:
//  - whatever ended after ending_since_ns is a consequence;
//  - of bad ends (a signal, a status other than 0, or not known how) the first is a cause;
//  - later ones are consequences where they look like one: under a launcher every one but a crash signal (SIGSEGV and
//    its like) more than a second later; without a launcher a status other than 0 and SIGABRT, the way programs give up
//    when a peer is gone. Nobody else kills ranks there, so another SIGKILL is a cause of its own.
void MarkConsequences(const EndingFacts& facts, const std::vector<Process*>& processes);

// The end of a process of a job on many hosts.
struct HostEnd {
  Process* process = nullptr;  // ended_mono_ns is on its machine's clock
  std::string host;            // ends of equal hosts (boot ids) are ordered by ended_mono_ns, exactly
  // When it ended on a shared clock, and the uncertainty (HostClocks, or wall clocks); uncertainty < 0: unknown.
  int64_t shared_ns = 0;
  int64_t uncertainty_ns = -1;
};

struct FirstEnds {
  // Indexes into the given ends: bad ends without a known earlier bad end. One: that is the cause. Several: the clocks
  // do not show which was first.
  std::vector<size_t> causes;
  // Further bad ends that are separate causes, as for MarkConsequences.
  std::vector<size_t> further;
};

// The same over hosts, by the same rules, as far as the clocks allow "first" and "within a second": an end is certainly
// before another if shared_ns and both uncertainties show it. Processes that a launcher's SIGTERM ended are never in
// `causes` beside other ends. Sets Process::consequence of all others; ending_since_ns is on the shared clock. O(n log
// n).
FirstEnds FindFirstEnds(const EndingFacts& facts, const std::vector<HostEnd>& ends);

// Killed, gone unseen, or exited with a status other than 0.
bool EndedBadly(const Process& process);

// What caused the end.
enum class EndKind : uint8_t {
  kWell,     // exited with status 0, or is alive
  kGaveUp,   // a status other than 0, or SIGABRT: the program's own decision
  kCrashed,  // SIGSEGV and similar
  kKilled,   // another signal, from outside; or gone in an unknown way
};
EndKind KindOfEnd(const Process& process);

// "exited 0", "killed by signal 9 (Killed)", "running", "gone".
std::string EndText(const Process& process);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_DETECT_ENDS_H_
