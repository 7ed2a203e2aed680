// What the GPU driver reports about its GPUs, through libnvidia-ml.so.1, which is opened at run time. NVML may hang
// forever if a GPU is lost, so only processes that may be killed use this.
#pragma once

#include <sys/types.h>

#include <functional>

#include "proto/process.pb.h"

namespace lockstep {

// Adds the GPUs to *evidence, or the reason for their absence to gpus_unread. Calls `progress` with the result so far
// after each GPU. `library` is null for the driver's own.
void ReadGpus(pid_t pid, const char* library, const std::function<void()>& progress, ProcessEvidence* evidence);

}  // namespace lockstep
