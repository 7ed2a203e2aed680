// What this host lets Lockstep see: CUDA's driver, other processes, the kernel's log, limits, containers.
#ifndef LOCKSTEP_COLLECTOR_TOOLS_DOCTOR_HOST_CHECKS_H_
#define LOCKSTEP_COLLECTOR_TOOLS_DOCTOR_HOST_CHECKS_H_

#include "collector/tools/doctor/check.h"

namespace lockstep::doctor {

Check CudaCheck();
// Examines a child of our own, and reports what other processes need.
Check PtraceCheck();
Check NamespaceCheck();
// The memory group we are in: rings count against it.
Check CgroupCheck();
Check KernelLogCheck();

}  // namespace lockstep::doctor

#endif  // LOCKSTEP_COLLECTOR_TOOLS_DOCTOR_HOST_CHECKS_H_
