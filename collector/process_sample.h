// Two looks at a process, at least a second apart: is it doing anything?
#ifndef LOCKSTEP_COLLECTOR_PROCESS_SAMPLE_H_
#define LOCKSTEP_COLLECTOR_PROCESS_SAMPLE_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "analyzer/bundle.h"
#include "collector/proc.h"

namespace lockstep {

class ProcessSampler {
 public:
  // Writes state letter, CPU and I/O since an earlier call, wait channel, threads in uninterruptible sleep, files open for
  // writing, and, unless there is better evidence, the kernel stacks of that earlier call (`stack`) and of now
  // (`stack_later`) into *process. Nothing is written when the process is gone.
  void Sample(pid_t pid, Process* process);

 private:
  Activity older_;
  bool traced_ = false;
  std::vector<std::string> older_stack_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_PROCESS_SAMPLE_H_
