// Separates processes that exited first from those that exited as a consequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/bundle.h"

namespace lockstep {

struct EndingFacts {
  // The job has its own launcher (torchrun, mpirun) above the ranks, which kills the others if one fails.
  bool launcher = false;
  // When lockstep, or the user through it, began to end the job; 0 if neither did.
  int64_t ending_since_ns = 0;
};

// Sets Process::consequence for one host's processes, ordered by the monotonic time of their exit:
// - A process that exited after ending_since_ns is a consequence.
// - The first abnormal exit (a signal, a status other than 0, or unknown) is a cause.
// - Later abnormal exits are consequences if they look like one. Under a launcher, this is every exit except a crash
//   signal (such as SIGSEGV) more than a second later. Without a launcher, it is a status other than 0, SIGABRT, or an
//   unknown end, because programs stop in these ways if a peer exits. Any other signal is a separate cause.
void MarkConsequences(const EndingFacts& facts, const std::vector<Process*>& processes);

// A process exit in a job that runs on many hosts.
struct HostEnd {
  Process* process = nullptr;  // ended_mono_ns is on its machine's clock
  std::string host;            // exits on the same host (boot ID) are ordered exactly, by ended_mono_ns
  // When the process exited on a clock that all hosts share (HostClocks or wall clocks), and the uncertainty. Negative:
  // the time is unknown.
  int64_t shared_ns = 0;
  int64_t uncertainty_ns = -1;
};

// Like MarkConsequences, for several hosts. Applies the same rules if the clocks are exact enough to decide "first" and
// "within a second"; but also without a launcher, an exit within a second of the first is not a separate cause. Returns
// the indexes of the abnormal exits that no other one certainly precedes. If there is one, it is the cause. If there
// are several, the clocks do not show which was first. An exit certainly precedes another if shared_ns and both
// uncertainties show it. Processes that a launcher's SIGTERM killed are never returned together with other exits. Sets
// Process::consequence of all others; ending_since_ns is on the shared clock.
std::vector<size_t> FindFirstEnds(const EndingFacts& facts, const std::vector<HostEnd>& ends);

// Returns whether the process was killed, disappeared, or exited with a status other than 0.
bool EndedBadly(const Process& process);

// How a process exited.
enum class EndKind : uint8_t {
  kWell,     // exited with status 0, or is alive
  kGaveUp,   // a status other than 0, or SIGABRT: the program's own decision
  kCrashed,  // SIGSEGV and similar
  kKilled,   // another signal, from outside; or the process disappeared
};
EndKind KindOfEnd(const Process& process);

// Returns "exited 0", "killed by signal 9 (Killed)", "running" or "gone".
std::string EndText(const Process& process);

}  // namespace lockstep
