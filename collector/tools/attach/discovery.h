// Finds processes of distributed jobs on this host that run without Lockstep, by launcher variables and mapped
// libraries.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct RankProcess {
  pid_t pid = 0;
  uid_t uid = 0;
  int32_t rank = -1;  // in the whole job; -1 if unknown
  int32_t world = -1, local_rank = -1, local_world = -1;
  std::string command;  // name of the program
};

// A rank of the job that is expected on this host and missing.
struct EndedRank {
  int32_t rank = -1, local_rank = -1;
  pid_t pid = 0;         // the zombie process; 0 if there is none
  int wait_status = -1;  // the exit status, as waitpid returns it; -1 if unknown
};

struct FoundJob {
  std::string name;  // safe in a file name
  std::string slurm_id;
  uint32_t restart_count = 0;
  int32_t world = 0;               // 0 if unknown
  int ras_port = 0;                // from NCCL_RAS_ADDR; 0: unset
  bool numbered = false;           // some ranks are unknown or duplicate, so all are numbered by PID
  std::vector<RankProcess> ranks;  // ascending by rank
  std::vector<EndedRank> ended;    // ranks without a running process
};

struct Discovery {
  std::vector<FoundJob> jobs;  // sorted by name
  size_t unreadable = 0;       // number of processes with an environment that this process may not read
};

// Treats `pids` as one job. If `pids` is empty, looks at all processes except this one and its ancestors. `proc` is the
// mount point of the proc file system.
Discovery FindJobs(const std::vector<pid_t>& pids, const std::string& proc = "/proc");

}  // namespace lockstep
