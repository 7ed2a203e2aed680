// NCCL's RAS subsystem: a process of the job listens on a socket (localhost:28028, or NCCL_RAS_ADDR) and prints the
// state of all ranks.
#ifndef LOCKSTEP_COLLECTOR_ATTACH_RAS_QUERY_H_
#define LOCKSTEP_COLLECTOR_ATTACH_RAS_QUERY_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

inline constexpr int kRasPort = 28028;

// Whether one of these processes listens there, in this process's network. Connects to nothing.
bool ListensForRas(const std::vector<pid_t>& pids, int port = kRasPort);

// The answer to "verbose status", at most 4 MiB and for at most `limit_ns`; empty: none.
std::string QueryRas(int64_t limit_ns, int port = kRasPort);

}  // namespace lockstep

#endif  // LOCKSTEP_COLLECTOR_ATTACH_RAS_QUERY_H_
