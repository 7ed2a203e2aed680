// The listening socket of `lockstep serve`, only on loopback, and the threads that answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/serve/http.h"
#include "analyzer/util/unique_fd.h"

namespace lockstep::serve {

// An address of 127.0.0.0/8, or "localhost", in host byte order.
std::optional<uint32_t> LoopbackAddress(const std::string& text);

struct ServerLimits {
  size_t connections = 16;                // answered at the same time; further ones wait
  int64_t head_ns = 5'000'000'000;        // for a request to arrive
  int64_t stall_ns = 30'000'000'000;      // while the client takes no byte of the answer
  int64_t answer_ns = 1'800'000'000'000;  // for the whole answer
};

class Server {
 public:
  // Called by several threads.
  using Handler = std::function<Response(const Request&)>;
  // `address` is one of 127.0.0.0/8, in host byte order; port 0 means any free port. Unavailable if the port is in use.
  static absl::StatusOr<std::unique_ptr<Server>> Start(uint32_t address, uint16_t port, Handler handler,
                                                       const ServerLimits& limits = {});
  // Closes the connections and waits for running handlers.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const { return port_; }

 private:
  Server(UniqueFd listener, uint16_t port, Handler handler, const ServerLimits& limits);
  void Work();
  void Serve(int connection);
  bool Wait(int connection, short events, int64_t until_ns) const;
  bool Send(int connection, const Response& response, bool without_body) const;

  const UniqueFd listener_;
  const uint16_t port_;
  const Handler handler_;
  const ServerLimits limits_;
  std::atomic<bool> ending_{false};
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::serve
