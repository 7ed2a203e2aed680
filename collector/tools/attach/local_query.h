// Queries a server in one of the job's processes on this host.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Returns whether one of these processes listens on this TCP port, in this process's network namespace. Opens no
// connection.
bool ListensOn(const std::vector<pid_t>& pids, int port);

// Sends `question` to this loopback port. Returns what the server sends until it closes the connection, at most `most`
// bytes or for `limit_ns`. Returns "" without an answer.
std::string QueryLocal(int port, std::string_view question, size_t most, int64_t limit_ns);

}  // namespace lockstep
