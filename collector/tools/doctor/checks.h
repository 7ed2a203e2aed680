// The checks of `lockstep doctor`, file by file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collector/host/environment.h"
#include "collector/tools/doctor/check.h"
#include "collector/wire/tool_client.h"

namespace lockstep::doctor {

// configuration_check.cpp: the configuration files that apply.

// `problem` is the error with which the doctor itself read them; OK if there was none.
std::vector<Check> ConfigurationChecks(const absl::Status& problem);

// recorder_checks.cpp: whether recording works, with a probe process and with the real NCCL.

struct ProbePlaces {
  std::string program;  // the probe
  std::string library;  // the NCCL library that the probe loads
};
// Looks in ../lib/lockstep/ next to the running program.
ProbePlaces FindProbe();

// Checks the recorder's switches: LOCKSTEP, files named "off", unknown variables.
std::vector<Check> SwitchChecks(const Environment& environment);
// Checks the folder for rings: file system, free space, owner. `ranks` is the number of ranks on this host.
Check SharedMemoryCheck(const Environment& environment, int ranks);
// Preloads the recorder into the probe, linked and opened with dlopen, and reads the resulting rings.
std::vector<Check> HookChecks(const Environment& environment, const ProbePlaces& probe);
// Checks the NCCL at `named`, or the first four that programs find, with every GPU hidden. `recorded` is true if
// HookChecks found no failure; otherwise a failure here may have the same reason, and is only a note.
std::vector<Check> NcclChecks(const Environment& environment, const ProbePlaces& probe, const std::string& named,
                              bool recorded);

// Returns the paths of libnccl.so.2 where programs find it, each library once, in search order.
std::vector<std::string> FindNccl(const Environment& environment);

// host_checks.cpp: what Lockstep can see on this host: GPUs, other processes, the kernel's log, limits, containers.

Check CudaCheck();
// Attaches to a child of this process, and reports which permissions other processes' stacks need.
Check PtraceCheck();
Check NamespaceCheck();
// Checks the memory limit of this process's cgroup, which includes rings.
Check CgroupCheck();
Check KernelLogCheck();

// network_checks.cpp: keys, and whether the collector answers.

// Checks every key file in the places that the tools search.
Check KeysCheck(const ToolOptions& options);
// Connects to the collector as a reader and waits for its answer, at most for the limit.
Check CollectorCheck(const ToolOptions& options, int64_t timeout_ns);

}  // namespace lockstep::doctor
