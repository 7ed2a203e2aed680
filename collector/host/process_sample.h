// Two looks at a process, at least a second apart, to see whether it is active.
#ifndef LOCKSTEP_COLLECTOR_HOST_PROCESS_SAMPLE_H_
#define LOCKSTEP_COLLECTOR_HOST_PROCESS_SAMPLE_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "analyzer/model/bundle.h"
#include "collector/host/proc.h"

namespace lockstep {

// More than threads that only watch (a framework's watchdog) use: a little CPU, an occasional line.
bool AtWork(int64_t gap_ns, int64_t cpu_ns, int64_t io_bytes);

class ProcessSampler {
 public:
  // Writes into *process: state letter, CPU and I/O since an earlier call (unknown if its threads often wait for a core
  // and get hardly any), wait channel, threads in uninterruptible sleep, files open for writing, and, unless there is
  // better evidence, the kernel stacks of that earlier call (`stack`) and of now (`stack_later`). Writes nothing if the
  // process is gone.
  void Sample(pid_t pid, Process* process) { Sample(pid, ProcessTree::Read(), process); }
  void Sample(pid_t pid, const ProcessTree& tree, Process* process);
  // It made progress: earlier samples no longer count.
  void Forget(Process* process);
  // Since when samples a second or more apart have seen it idle (monotonic); 0: not, or it was active.
  int64_t idle_since_ns() const { return idle_since_ns_; }

 private:
  void Unknown(Process* process);

  Activity older_;
  int64_t idle_since_ns_ = 0;
  bool traced_ = false, running_ = false;
  std::vector<std::string> older_stack_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_HOST_PROCESS_SAMPLE_H_
