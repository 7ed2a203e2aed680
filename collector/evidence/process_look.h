// Two looks at a suspect in the background: its stacks now, and again a little later.
#ifndef LOCKSTEP_COLLECTOR_EVIDENCE_PROCESS_LOOK_H_
#define LOCKSTEP_COLLECTOR_EVIDENCE_PROCESS_LOOK_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "analyzer/model/bundle.h"
#include "collector/evidence/evidence.h"

namespace lockstep {

// Not thread-safe.
class ProcessLook {
 public:
  ProcessLook() = default;
  ~ProcessLook();
  ProcessLook(const ProcessLook&) = delete;
  ProcessLook& operator=(const ProcessLook&) = delete;

  // Call it every second or so while the process is under suspicion; never waits. Begins a look when one is due, and
  // writes what a finished one found into *process. At most two; after ten seconds without a call everything begins
  // anew. Few looks are under way at a time in this program: the others' turn comes later. `main_tid` as for
  // TakeEvidence.
  // `ring`: descriptor of its ring file, -1: none.
  void Continue(pid_t pid, pid_t main_tid, Process* process, int ring = -1);
  // A look is running: a thread of the process may be stopped by it (state 't').
  bool busy() const { return job_ != nullptr; }
  // Finished looks since the start.
  int looks() const { return looks_; }
  // Waits for a running look, at most `limit_ns`, and takes its result.
  void Finish(int64_t limit_ns, pid_t main_tid, Process* process);

 private:
  void Take(pid_t main_tid, Process* process);

  std::unique_ptr<EvidenceJob> job_;
  int looks_ = 0;
  int64_t looked_ns_ = 0, called_ns_ = 0;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_EVIDENCE_PROCESS_LOOK_H_
