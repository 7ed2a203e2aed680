// Samples a process in the background: takes its stacks now, and again a little later.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "analyzer/model/bundle.h"
#include "collector/evidence/evidence.h"
#include "recorder/ring/snapshot.h"

namespace lockstep {

// Returns the thread with the most recorded calls, in the process's own numbering; 0 if there are no threads.
pid_t BusiestThread(const ring::Snapshot& digest);

struct LookPlan {
  int most = 2;  // number of samples
  int64_t gap_ns = 1'000'000'000;
  int64_t since_ns = 0;  // samples that began earlier do not count (CLOCK_MONOTONIC)
  bool hardware = true;  // also reads GPUs and the kernel's log, once
};

// Not thread-safe.
class ProcessLook {
 public:
  ProcessLook() = default;
  ~ProcessLook();

  // Call about once a second while the process is a suspect; never waits. Starts a sample when one is due, and writes
  // the results of a finished one into *process. Starts from the beginning after ten seconds without a call. Only a few
  // samples run at a time in this program; the others wait for their turn. `main_tid` as for TakeEvidence. `ring`:
  // descriptor of its ring file; -1 if there is none.
  void Continue(pid_t pid, pid_t main_tid, Process* process, int ring = -1, LookPlan plan = {});
  // Call if the process made progress: cancels a running sample, and removes the results of earlier ones.
  void Forget(Process* process);
  // Returns true if a sample is running, which may have stopped a thread of the process (state 't').
  bool busy() const { return job_ != nullptr; }
  // Returns the number of finished samples.
  int looks() const { return looks_; }
  // Waits for a running sample, at most `limit_ns`, and takes its result.
  void Finish(int64_t limit_ns, pid_t main_tid, Process* process);

 private:
  void Take(pid_t main_tid, Process* process);

  std::unique_ptr<EvidenceJob> job_;
  int looks_ = 0;
  bool hardware_ = false;  // a sample has read GPUs and the kernel's log
  int64_t began_ns_ = 0, looked_ns_ = 0, called_ns_ = 0;
};

}  // namespace lockstep
