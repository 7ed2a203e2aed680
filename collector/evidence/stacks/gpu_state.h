// The GPU driver's report about its GPUs, by libnvidia-ml.so.1, which is opened at run time. NVML may hang for good if
// a GPU is lost: only for processes that may be killed.
#ifndef LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_GPU_STATE_H_
#define LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_GPU_STATE_H_

#include <sys/types.h>

#include <functional>

#include "proto/process.pb.h"

namespace lockstep {

// Adds the GPUs to *evidence, or the reason for their absence to gpus_unread. Calls `progress` with the current result
// after each GPU. `library`: null for the driver's own.
void ReadGpus(pid_t pid, const char* library, const std::function<void()>& progress, ProcessEvidence* evidence);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_EVIDENCE_STACKS_GPU_STATE_H_
