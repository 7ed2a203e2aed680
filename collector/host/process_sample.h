// Two samples of a process, at least a second apart, which show whether it is active.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "collector/host/proc.h"

namespace lockstep {

// Returns true if the process used more CPU or I/O than threads that only watch. Such threads, for example a
// framework's watchdog, use a little CPU and print an occasional line.
bool AtWork(int64_t gap_ns, int64_t cpu_ns, int64_t io_bytes);

class ProcessSampler {
 public:
  // Writes into *process: the state letter, CPU and I/O since an earlier call, the wait channel, threads in
  // uninterruptible sleep, and files open for writing. CPU and I/O are unknown if a thread could run at both samples,
  // but the process used almost no CPU: it may be waiting for a core. Without better evidence, also writes the kernel
  // stacks of that earlier call (`stack`) and of now (`stack_later`). Writes nothing if the process has exited.
  void Sample(pid_t pid, const ProcessTree& tree, Process* process);
  // Call this when the process has made progress, so that earlier samples no longer count.
  void Forget(Process* process);
  // Returns the monotonic time from which samples, a second or more apart, have shown the process idle. 0 if it was
  // active or not sampled twice.
  int64_t idle_since_ns() const { return idle_since_ns_; }

 private:
  void Unknown(Process* process);

  Activity older_;
  int64_t idle_since_ns_ = 0;
  bool traced_ = false, running_ = false;
  std::vector<std::string> older_stack_;
};

}  // namespace lockstep
