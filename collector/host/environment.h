// The environment of the job's processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep {

using Environment = std::vector<std::string>;  // "NAME=value"

// Returns whether a job with this environment would find a libnccl-profiler.so, which NCCL loads if no plugin is
// configured.
bool ProfilerIsInstalled(const Environment& environment);

Environment CurrentEnvironment();
// Returns "" if the variable is unset.
std::string GetVariable(const Environment& environment, const std::string& name);
bool HasVariable(const Environment& environment, const std::string& name);
void SetVariable(Environment* environment, const std::string& name, const std::string& value);
void PrependPreload(Environment* environment, const std::string& library);

// Returns the absolute path of liblockstep.so: LOCKSTEP_LIBRARY, otherwise the library in ../lib/ next to the running
// program. Fails if it is missing, or if its path contains a space or a colon, which separate names in LD_PRELOAD.
absl::StatusOr<std::string> FindLibrary(const Environment& environment);

// Sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT for one rank on this host.
void SetRank(Environment* environment, int rank, int world_size, int port);
// Returns a TCP port on 127.0.0.1 on which nothing listens.
absl::StatusOr<int> FreePort();

// Returns LOCKSTEP_RING_KIB for `ranks` (0 if unknown) ranks on this host. Larger rings keep a longer history of a fast
// job. All rings together take at most a 32nd of the free space, both in `folder` and in memory. 0 leaves the
// recorder's default.
int RingKib(int ranks, const std::string& folder);
// Like RingKib, for a given amount of free memory in bytes.
int RingKibFor(int ranks, uint64_t free_bytes);

// Rack and switch of this host, for the incident: LOCKSTEP_RACK and LOCKSTEP_SWITCH if set. Otherwise, the switch is
// the element before the node in Slurm's SLURM_TOPOLOGY_ADDR, if SLURM_TOPOLOGY_ADDR_PATTERN calls that element a
// switch. Empty if unknown.
struct RackAndSwitch {
  std::string rack, leaf_switch;
};
RackAndSwitch PlaceOf(const Environment& environment);

// Returns the job name from LOCKSTEP_JOB, SLURM_JOB_ID or TORCHELASTIC_RUN_ID, otherwise "COMMAND-PID"; safe in a file
// name.
std::string JobName(const Environment& environment, const std::string& command);

}  // namespace lockstep
