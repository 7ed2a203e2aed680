// The cgroup whose memory limit a process reaches first.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

// Numbers are -1 if unknown.
struct MemoryCgroup {
  std::string path;    // as in /proc/PID/cgroup
  std::string events;  // the file that counts the OOM killer's victims
  int64_t limit = -1;  // bytes; -1 also if there is no limit
  int64_t used = -1;   // bytes
};

// Returns the process's own cgroup, or the one with the lowest limit above it. Slurm and systemd limit a job's cgroup,
// but the job's processes are in cgroups below. `process` is "/proc/PID"; `root` is the mount point of the cgroup file
// system.
MemoryCgroup FindMemoryCgroup(const std::string& process, const std::string& root = "/sys/fs/cgroup");

}  // namespace lockstep
