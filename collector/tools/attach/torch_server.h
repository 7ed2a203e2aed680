// Flight Recorder dumps from PyTorch's debug server (torch.distributed.debug), which a job starts itself.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// The default port. A process that rank 0 starts listens there.
inline constexpr int kTorchServerPort = 25999;

// Returns the dumps by rank, as JSON: NCCL's; if they have no calls, gloo's. The server asks a thread of each rank; no
// file is written. Sends nothing unless one of these processes listens on the port.
std::map<int32_t, std::string> AskTorchServer(const std::vector<pid_t>& pids, int64_t limit_ns,
                                              int port = kTorchServerPort);

// Parses the dumps in a page of the server, by rank.
std::map<int32_t, std::string> DumpsInPage(std::string_view page);

}  // namespace lockstep
