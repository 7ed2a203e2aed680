// What the GPU driver says of its GPUs, by libnvidia-ml.so.1, which is opened at run time. NVML may hang when a GPU is
// lost, for good: only for processes that may be killed.
#ifndef LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_GPU_STATE_H_
#define LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_GPU_STATE_H_

#include <sys/types.h>

#include <functional>

#include "proto/process.pb.h"

namespace lockstep {

// Adds the GPUs to *evidence, or says in gpus_unread why there are none. `progress` is called after each GPU with what
// is known so far. `library`: null for the driver's own.
void ReadGpus(pid_t pid, const char* library, const std::function<void()>& progress, ProcessEvidence* evidence);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_GPU_STATE_H_
