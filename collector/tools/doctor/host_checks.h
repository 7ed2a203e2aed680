// Checks what Lockstep can see on this host: CUDA's driver, other processes, the kernel's log, limits, containers.
#pragma once

#include "collector/tools/doctor/check.h"

namespace lockstep::doctor {

Check CudaCheck();
// Examines a child of this process, and reports which permissions other processes need.
Check PtraceCheck();
Check NamespaceCheck();
// The memory cgroup of this process, whose limit includes rings.
Check CgroupCheck();
Check KernelLogCheck();

}  // namespace lockstep::doctor
